# SPDX-License-Identifier: Apache-2.0
"""Sending gradients in fewer bits, with Horovod's names. A program may bring a `Compressor` of its own."""

from typing import Any, ClassVar

import torch


class Compressor:
    """Encoding of a tensor on the way. Both methods are static: the class itself is handed around, as in Horovod."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor to send, and the context for `decompress`."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        """Return the tensor in its own dtype."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Tensors travel as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """See `Compressor`."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        """See `Compressor`."""
        del context
        return tensor


def _narrowed(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.dtype | None]:
    """Return a floating-point tensor in a narrower dtype and its own dtype; others as they are."""
    is_wider = tensor.dtype.is_floating_point and tensor.dtype.itemsize > dtype.itemsize
    return (tensor.to(dtype), tensor.dtype) if is_wider else (tensor, None)


def _widened(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor if dtype is None else tensor.to(dtype)


class FP16Compressor(Compressor):
    """Floating-point tensors travel as float16: 11 bits of precision, values up to 65504."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """See `Compressor`."""
        return _narrowed(tensor, torch.float16)

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        """See `Compressor`."""
        return _widened(tensor, context)


class BF16Compressor(Compressor):
    """Floating-point tensors travel as bfloat16: 8 bits of precision, the range of float32."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """See `Compressor`."""
        return _narrowed(tensor, torch.bfloat16)

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        """See `Compressor`."""
        return _widened(tensor, context)


CompressorClass = type[Compressor]


class Compression:
    """Values of the argument `compression`."""

    none: ClassVar[CompressorClass] = NoneCompressor
    fp16: ClassVar[CompressorClass] = FP16Compressor
    bf16: ClassVar[CompressorClass] = BF16Compressor
