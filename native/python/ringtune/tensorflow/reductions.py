# SPDX-License-Identifier: Apache-2.0
"""Allreduce and reducescatter of tensors, with Horovod's names, meanings and signatures.

`device_dense` and `device_sparse` are Horovod's: the engine works in CPU memory, wherever the tensors are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ringtune import arrays
from ringtune.arrays import Array
from ringtune.arrays.sparse import check_sparse_reduction, submit_sparse_allreduce
from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import Average, ReduceOp, Reduction, Sum, reduction_of, world_of

from .autograd import Tensors, apply
from .compression import Compression, CompressorClass
from .host import call_host, rows_like, spec_like
from .movement import Allgather


@dataclass(frozen=True)
class _Reducing:
    """Request for an operation that reduces.

    Attributes:
        name: Key that matches this call across ranks; None for the order of calls.
        reduction: Operation that combines the ranks' values.
        process_set: Ranks that take part.
        is_grouped: Whether the tensors are reduced all together or not at all.
    """

    name: str | None
    reduction: Reduction
    process_set: ProcessSet
    is_grouped: bool = False

    def options(self) -> dict[str, Any]:
        """Return the arguments of the operation on arrays."""
        return {
            "op": self.reduction.op,
            "name": self.name,
            "prescale_factor": self.reduction.prescale,
            "postscale_factor": self.reduction.postscale,
            "process_set": self.process_set,
        }

    def name_of_gradient(self, operation: str) -> str | None:
        """Return the name under which gradients meet; raises `ConfigError` where there are none."""
        if self.reduction.op not in {Sum, Average}:
            raise ConfigError(
                f"{operation} with op={self.reduction.op.name.title()} has no gradient; use Sum or Average, or "
                "tf.stop_gradient"
            )
        return None if self.name is None else f"{self.name}.gradient"


class Allreduce(_Reducing):
    """One allreduce; see `Collective`."""

    def forward(self, tensors: Tensors) -> tuple[Tensors, Any]:
        """See `Collective`."""
        return call_host(self._run, tensors, [spec_like(tensor) for tensor in tensors]), None

    def backward(self, saved: Any, gradients: Tensors) -> Tensors:
        """See `Collective`; the gradient of a sum is the sum of the gradients, that of an average their average."""
        del saved
        name = self.name_of_gradient("allreduce")
        return apply(Allreduce(name, self.reduction, self.process_set, self.is_grouped), gradients)

    def _run(self, inputs: list[Array]) -> Sequence[Array]:
        if self.is_grouped:
            return arrays.grouped_allreduce(inputs, **self.options())
        return [arrays.allreduce(inputs[0], **self.options())]


class Reducescatter(_Reducing):
    """One reducescatter; see `Collective`."""

    def forward(self, tensors: Tensors) -> tuple[Tensors, Any]:
        """See `Collective`."""
        return call_host(self._run, tensors, [rows_like(tensor) for tensor in tensors]), None

    def backward(self, saved: Any, gradients: Tensors) -> Tensors:
        """See `Collective`; as in Horovod, gradients are gathered, and for Sum multiplied by the number of ranks."""
        del saved
        name = self.name_of_gradient("reducescatter")
        ranks = world_of(self.process_set).size if self.reduction.op is Sum else 1
        factor = ranks * self.reduction.prescale * self.reduction.postscale
        return apply(Allgather(name, self.process_set, self.is_grouped), [factor * gradient for gradient in gradients])

    def _run(self, inputs: list[Array]) -> Sequence[Array]:
        if self.is_grouped:
            return arrays.grouped_reducescatter(inputs, **self.options())
        return [arrays.reducescatter(inputs[0], **self.options())]


def allreduce(  # noqa: PLR0917  (Horovod's signature)
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: CompressorClass = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,  # noqa: FBT002  (Horovod's signature)
) -> Any:
    """Combine a tensor over all ranks and return the result.

    Args:
        tensor: A tensor or variable of one of the engine's dtypes, or `tf.IndexedSlices`, whose values and indices are
            gathered.
        average: Horovod's older spelling of `op`; give one of them.
        device_dense: Horovod's; without effect.
        device_sparse: Horovod's; without effect.
        compression: Encoding of the tensor on the way, such as `Compression.fp16`.
        op: `Average` (default), `Sum`, `Adasum`, `Min`, `Max` or `Product`.
        prescale_factor: Factor of the tensor before the reduction.
        postscale_factor: Factor of the result after it.
        name: Key that matches the ranks' tensors; without one, calls are matched by their order.
        process_set: Ranks that take part.
        ignore_name_scope: Horovod's; without effect.

    Raises:
        ConfigError: If the tensor cannot be taken, both `average` and `op` are given, or this rank is not in the set.
        EngineError: If the world is lost; inside `tf.function`, TensorFlow's error that has its text.
    """
    del device_dense, device_sparse, ignore_name_scope
    reduction = reduction_of(average, op, prescale_factor, postscale_factor)
    if isinstance(tensor, tf.IndexedSlices):
        return _allreduce_slices(tensor, name, reduction, process_set)
    compressed, context = compression.compress(tf.convert_to_tensor(tensor))
    (result,) = apply(Allreduce(name, reduction, process_set), [compressed])
    return compression.decompress(result, context)


def grouped_allreduce(  # noqa: PLR0917  (Horovod's signature)
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: CompressorClass = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,  # noqa: FBT002  (Horovod's signature)
    name: str | None = None,
) -> list[Any]:
    """Combine several dense tensors over all ranks: all of them together, or none if one fails; see `allreduce`."""
    del device_dense, device_sparse, ignore_name_scope
    reduction = reduction_of(average, op, prescale_factor, postscale_factor)
    pairs = [compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
    collective = Allreduce(name, reduction, process_set, is_grouped=True)
    results = apply(collective, [compressed for compressed, _ in pairs])
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs, strict=True)]


def reducescatter(  # noqa: PLR0917  (Horovod's signature)
    tensor: Any,
    device_dense: str = "",
    compression: CompressorClass = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,  # noqa: FBT002  (Horovod's signature)
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Combine a tensor over all ranks and return this rank's rows of the result.

    Args:
        tensor: Tensor of at least one dimension; equal shapes on all ranks.
        device_dense: Horovod's; without effect.
        compression: See `allreduce`.
        op: `Average`, `Sum`, `Min`, `Max` or `Product`.
        name: See `allreduce`.
        process_set: See `allreduce`.
        ignore_name_scope: Horovod's; without effect.
        prescale_factor: See `allreduce`.
        postscale_factor: See `allreduce`.

    Returns:
        `rows // size` rows, one more on the first `rows % size` ranks.
    """
    del device_dense, ignore_name_scope
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    compressed, context = compression.compress(tf.convert_to_tensor(tensor))
    (result,) = apply(Reducescatter(name, reduction, process_set), [compressed])
    return compression.decompress(result, context)


def grouped_reducescatter(  # noqa: PLR0917  (Horovod's signature)
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: CompressorClass = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """Combine and scatter several tensors, all together or none; see `reducescatter`."""
    del device_dense
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    pairs = [compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
    collective = Reducescatter(None, reduction, process_set, is_grouped=True)
    results = apply(collective, [compressed for compressed, _ in pairs])
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs, strict=True)]


def _allreduce_slices(
    slices: tf.IndexedSlices, name: str | None, reduction: Reduction, process_set: ProcessSet
) -> tf.IndexedSlices:
    check_sparse_reduction(reduction.op)

    def run(inputs: list[Array]) -> Sequence[Array]:
        world = world_of(process_set)
        full_name = world.handles.name_for("sparse_allreduce", name)
        combined: Sequence[Array] = submit_sparse_allreduce(world, full_name, inputs[0], inputs[1], reduction.op).wait()
        return combined

    scale = reduction.prescale * reduction.postscale
    own = slices.values if scale == 1.0 else slices.values * scale
    values, indices = call_host(run, [own, slices.indices], [rows_like(own), rows_like(slices.indices)])
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)
