# SPDX-License-Identifier: Apache-2.0
"""Plain data with tensors in it through JSON and back; what holds for any plain data is tested beside `plain_data`."""

import pytest
import torch

from ringtune.errors import ConfigError
from ringtune.torch.codec import decode, encode


def test_tensors_travel_apart_in_order() -> None:
    """The text says dtype and shape of each tensor; the receiver makes them in the order of their numbers."""
    first, second = torch.ones(2, 3), torch.ones(1, dtype=torch.int64)
    made: list[tuple[int, torch.dtype, tuple[int, ...]]] = []

    def make(number: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        made.append((number, dtype, shape))
        return torch.zeros(shape, dtype=dtype)

    text, tensors = encode({"state": {0: first}, "steps": [second]})
    restored = decode(text, make)

    assert [first.data_ptr(), second.data_ptr()] == [tensor.data_ptr() for tensor in tensors]
    assert [(0, torch.float32, (2, 3)), (1, torch.int64, (1,))] == made
    assert (1,) == tuple(restored["steps"][0].shape)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(1, dtype=torch.complex64),
        torch.zeros(2, 2).to_sparse(),
        torch.zeros(1, device="meta"),
    ],
    ids=["complex", "sparse", "without memory"],
)
def test_a_tensor_that_the_engine_cannot_read_is_refused(tensor: torch.Tensor) -> None:
    """The error says what kind of tensor it is."""
    with pytest.raises(ConfigError, match=f"{tensor.dtype} on {tensor.device} cannot be sent"):
        encode([tensor])


def test_an_unknown_dtype_is_an_error() -> None:
    """Text from a version that knows more dtypes is an error of ours."""
    text, _ = encode(torch.zeros(1))

    with pytest.raises(ConfigError, match="cannot be read"):
        decode(text.replace(b"float32", b"float8"), lambda number, dtype, shape: torch.zeros(0))
