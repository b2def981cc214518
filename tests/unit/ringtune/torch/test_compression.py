# SPDX-License-Identifier: Apache-2.0
"""Tensors in fewer bits and back."""

import pytest
import torch

from ringtune.torch.compression import Compression, CompressorClass


@pytest.mark.parametrize(
    ("compression", "dtype"), [(Compression.fp16, torch.float16), (Compression.bf16, torch.bfloat16)]
)
@pytest.mark.parametrize("wide", [torch.float32, torch.float64])
def test_floats_travel_narrow_and_come_back_wide(
    compression: CompressorClass, dtype: torch.dtype, wide: torch.dtype
) -> None:
    """Values that the narrow dtype has survive exactly."""
    tensor = torch.tensor([0.5, -2.0, 96.0], dtype=wide)

    travelling, context = compression.compress(tensor)
    restored = compression.decompress(travelling, context)

    assert dtype is travelling.dtype
    assert wide is restored.dtype
    assert torch.equal(tensor, restored)


@pytest.mark.parametrize("compression", [Compression.none, Compression.fp16, Compression.bf16])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float16, torch.bfloat16])
def test_what_is_not_wider_travels_as_it_is(compression: CompressorClass, dtype: torch.dtype) -> None:
    """Integers, truth values and 16-bit floats are the very same tensor."""
    tensor = torch.ones(2, dtype=dtype)

    travelling, context = compression.compress(tensor)

    assert tensor is travelling
    assert tensor is compression.decompress(travelling, context)


def test_compression_passes_gradients_on() -> None:
    """A compressed tensor is part of autograd's graph."""
    tensor = torch.ones(3, requires_grad=True)

    travelling, context = Compression.fp16.compress(tensor)
    Compression.fp16.decompress(travelling, context).sum().backward()

    assert tensor.grad is not None
    assert torch.equal(torch.ones(3), tensor.grad)
