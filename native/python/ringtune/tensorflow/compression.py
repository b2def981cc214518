# SPDX-License-Identifier: Apache-2.0
"""Sending tensors in fewer bits, with Horovod's names. A program may bring a `Compressor` of its own."""

from typing import Any, ClassVar

import tensorflow as tf


class Compressor:
    """Encoding of a tensor on the way. Both methods are static: the class itself is handed around, as in Horovod."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to send, and the context for `decompress`."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Return the tensor in its own dtype."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Tensors travel as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """See `Compressor`."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """See `Compressor`."""
        del ctx
        return tensor


def _narrowed(tensor: Any, dtype: tf.DType) -> tuple[Any, Any]:
    """Return a floating-point tensor in a narrower dtype and its own dtype; others as they are."""
    is_wider = tensor.dtype.is_floating and tensor.dtype.size > dtype.size
    return (tf.cast(tensor, dtype), tensor.dtype) if is_wider else (tensor, None)


def _widened(tensor: Any, dtype: tf.DType | None) -> Any:
    return tensor if dtype is None else tf.cast(tensor, dtype)


class FP16Compressor(Compressor):
    """Floating-point tensors travel as float16: 11 bits of precision, values up to 65504."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """See `Compressor`."""
        return _narrowed(tensor, tf.float16)

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """See `Compressor`."""
        return _widened(tensor, ctx)


class BF16Compressor(Compressor):
    """Floating-point tensors travel as bfloat16: 8 bits of precision, the range of float32."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """See `Compressor`."""
        return _narrowed(tensor, tf.bfloat16)

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """See `Compressor`."""
        return _widened(tensor, ctx)


CompressorClass = type[Compressor]


class Compression:
    """Values of the argument `compression`."""

    none: ClassVar[CompressorClass] = NoneCompressor
    fp16: ClassVar[CompressorClass] = FP16Compressor
    bf16: ClassVar[CompressorClass] = BF16Compressor
