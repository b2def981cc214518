# SPDX-License-Identifier: Apache-2.0
"""Checks the operations of the TensorFlow front end, eagerly and in graphs. Arguments: cases, or all."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import ringtune.tensorflow as hvd
from tests.integration.plain_rank import expect_error, run_cases

FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
INTEGERS = (tf.uint8, tf.int8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64)


def both_ways(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return a function as it is and as a graph."""
    return [function, tf.function(function)]


def own(dtype: Any = tf.float32, rows: int = 3, rank: int | None = None) -> Any:
    """Return a rank's values: shape (rows, 2), small whole numbers."""
    rank = hvd.rank() if rank is None else rank
    return tf.cast(tf.reshape(tf.range(2 * rows) % 4 + rank, (rows, 2)), dtype)


def everybodys(dtype: Any = tf.float32, rows: int = 3) -> list[Any]:
    """Return every rank's values."""
    return [own(dtype, rows, rank) for rank in range(hvd.size())]


def assert_equal(expected: Any, got: Any, *about: object) -> None:
    """Require equal dtype, shape and values."""
    expected = tf.convert_to_tensor(expected)
    assert expected.dtype == got.dtype, (expected, got, *about)
    assert expected.shape == got.shape, (expected, got, *about)
    same = np.allclose(tf.cast(expected, tf.float64).numpy(), tf.cast(got, tf.float64).numpy(), 1e-2, 1e-2)
    assert same, (expected, got, *about)


def _truncated(values: Any) -> Any:
    return tf.sign(values) * tf.floor(tf.abs(values))


def case_allreduce() -> None:
    """Every operation and dtype; scales, compression, variables; shapes are known in the graph."""
    for dtype in (*FLOATS, *INTEGERS):
        together = tf.cast(tf.stack(everybodys(dtype)), tf.float64)
        expected = {
            hvd.Sum: tf.reduce_sum(together, 0),
            hvd.Min: tf.reduce_min(together, 0),
            hvd.Max: tf.reduce_max(together, 0),
            hvd.Product: tf.reduce_prod(together, 0),
            hvd.Average: tf.reduce_mean(together, 0) if dtype.is_floating else _truncated(tf.reduce_mean(together, 0)),
        }
        for op, result in expected.items():
            runs = both_ways(lambda tensor, op=op: hvd.allreduce(tensor, op=op))
            for run in runs if dtype == tf.float32 else runs[:1]:
                assert_equal(tf.cast(result, dtype), run(own(dtype)), op, dtype)
    ones = tf.Variable(tf.ones(4))
    assert_equal(tf.ones(4) * 3, hvd.allreduce(ones, prescale_factor=6.0, postscale_factor=0.5))
    assert_equal(tf.ones(4) * hvd.size(), hvd.allreduce(ones, average=False, compression=hvd.Compression.bf16))
    assert_equal(
        tf.ones(4), tf.function(lambda: hvd.allreduce(ones, op=hvd.Adasum, compression=hvd.Compression.fp16))()
    )
    traced = tf.function(hvd.allreduce).get_concrete_function(tf.TensorSpec((None, 2)))
    assert [None, 2] == traced.output_shapes.as_list(), traced


def case_groups() -> None:
    """Groups of mixed dtypes."""
    tensors = [own(dtype) for dtype in (*FLOATS, *INTEGERS)]
    for run in both_ways(lambda: hvd.grouped_allreduce(tensors, op=hvd.Sum)):
        for tensor, got in zip(tensors, run(), strict=True):
            assert_equal(tf.add_n(everybodys(tensor.dtype)), got)
    assert [] == hvd.grouped_allreduce([])
    for got in hvd.grouped_allgather([own(), own()]):
        assert_equal(tf.concat(everybodys(), 0), got)
    for got in hvd.grouped_reducescatter([own(rows=hvd.size())] * 2, op=hvd.Sum):
        assert_equal(tf.add_n(everybodys(rows=hvd.size()))[hvd.rank() : hvd.rank() + 1], got)


def case_gathering() -> None:
    """Ragged rows, and tensors without a dimension, which count as one."""
    ragged = [own(tf.int64, rows=other + 1, rank=other) for other in range(hvd.size())]
    for run in both_ways(hvd.allgather):
        assert_equal(tf.concat(ragged, 0), run(ragged[hvd.rank()]))
        assert_equal(tf.range(hvd.size()), run(tf.constant(hvd.rank())))


def case_broadcast() -> None:
    """Tensors of any dtype, also of those that the engine only moves."""
    last = hvd.size() - 1
    for dtype in (tf.float32, tf.bfloat16, tf.bool, tf.complex64, tf.complex128):
        for run in both_ways(lambda tensor: hvd.broadcast(tensor, last)):
            assert np.array_equal(own(dtype, rank=last).numpy(), run(own(dtype)).numpy())


def case_alltoall() -> None:
    """Equal parts, and splits that differ between ranks."""
    size, rank = hvd.size(), hvd.rank()
    splits = [[(source + target) % 3 for target in range(size)] for source in range(size)]
    equal = [own(rows=size, rank=other)[rank : rank + 1] for other in range(size)]
    parts = [tf.split(own(rows=sum(splits[other]), rank=other), splits[other])[rank] for other in range(size)]
    for run in both_ways(hvd.alltoall):
        assert_equal(tf.concat(equal, 0), run(own(rows=size)))
        received, counts = run(own(rows=sum(splits[rank])), tf.constant(splits[rank]))
        assert_equal(tf.concat(parts, 0), received)
        assert_equal(tf.constant([splits[other][rank] for other in range(size)]), counts)


def case_reducescatter() -> None:
    """The first rank keeps one row more."""
    rows = hvd.size() + 1
    start, end = (0, 2) if hvd.rank() == 0 else (hvd.rank() + 1, hvd.rank() + 2)
    for run in both_ways(lambda tensor: hvd.reducescatter(tensor, op=hvd.Sum)):
        assert_equal(tf.add_n(everybodys(rows=rows))[start:end], run(own(rows=rows)))


def case_sparse() -> None:
    """Indexed slices are combined by their rows."""
    size, rank = hvd.size(), hvd.rank()
    slices = tf.IndexedSlices(own(rows=2), tf.constant([0, rank + 1], tf.int64), tf.constant([size + 1, 2], tf.int64))
    dense = np.zeros((size + 1, 2), np.float32)
    for other in range(size):
        dense[[0, other + 1]] += own(rows=2, rank=other).numpy()
    for run in both_ways(lambda: hvd.allreduce(slices, op=hvd.Average)):
        result = run()
        assert isinstance(result, tf.IndexedSlices)
        assert_equal(dense / size, tf.convert_to_tensor(result))
    expect_error(hvd.ConfigError, "Max", lambda: hvd.allreduce(slices, op=hvd.Max))


def gradient_of(function: Callable[[Any], Any], tensor: Any) -> Any:
    """Return the gradient of the sum of a function's result, weighted by the rank, by its input."""
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        target = tf.reduce_sum(function(tensor)) * (hvd.rank() + 1.0)
    return tape.gradient(target, tensor)


def case_gradients() -> None:
    """Gradients go through collectives by Horovod's rules."""
    size, rank = hvd.size(), hvd.rank()
    total, average = size * (size + 1) / 2, (size + 1) / 2
    functions: list[tuple[Callable[[Any], Any], float]] = [
        (lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, postscale_factor=2.0), 2 * total),
        (hvd.allreduce, average),
        (lambda tensor: hvd.grouped_allreduce([tensor, 2 * tensor], op=hvd.Sum), 3 * total),
        (hvd.allgather, average),
        (lambda tensor: hvd.broadcast(tensor, 0), average if rank == 0 else 0.0),
    ]
    for function, factor in functions:
        for run in both_ways(lambda tensor, function=function: gradient_of(function, tensor)):
            assert_equal(tf.fill((3, 2), factor), run(own()), factor)
    rows = own(rows=size)
    senders = tf.repeat(tf.range(1.0, size + 1)[:, None], 2, 1)
    assert_equal(senders, gradient_of(hvd.alltoall, rows))
    assert_equal(size * senders, gradient_of(lambda tensor: hvd.reducescatter(tensor, op=hvd.Sum), rows))
    expect_error(hvd.ConfigError, "Max", lambda: gradient_of(lambda tensor: hvd.allreduce(tensor, op=hvd.Max), own()))


def case_variables_and_objects() -> None:
    """Variables and plain data of the root reach every rank."""
    last = hvd.size() - 1
    variables = [tf.Variable(own()), tf.Variable(own(tf.int64)), tf.Variable(hvd.rank() == last)]
    for run in both_ways(lambda: hvd.broadcast_variables(variables, last)):
        for variable, value in zip(variables, (own(), own(tf.int64), hvd.rank() == last), strict=True):
            variable.assign(value)
        run()
        assert_equal(own(rank=last), variables[0])
        assert_equal(own(tf.int64, rank=last), variables[1])
        assert bool(variables[2])
    hvd.broadcast_([variables[0]], 0)
    data = {"step": hvd.rank(), "tensor": own(tf.bfloat16), "array": np.arange(2), "rate": 0.1}
    told = hvd.broadcast_object(data, last)
    assert (last, 0.1) == (told["step"], told["rate"])
    assert_equal(own(tf.bfloat16, rank=last), told["tensor"])
    assert list(range(hvd.size())) == [other["step"] for other in hvd.allgather_object(data)]
    expect_error(hvd.ConfigError, "broadcast_variables(model.weights, 0)", lambda: hvd.broadcast_global_variables(0))
    expect_error(hvd.ConfigError, "needs variables", lambda: hvd.broadcast_variables([tf.ones(1)], 0))


def case_waiting() -> None:
    """Barrier and join, also inside a graph; a joined rank brings zeros."""
    for run in both_ways(hvd.barrier):
        run()
    for number in range(hvd.rank() + 1):
        assert_equal(
            tf.constant(float(hvd.size() - number)), hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name=f"{number}")
        )
    assert hvd.size() - 1 == int(hvd.join())
    assert 0 <= int(tf.function(hvd.join)()) < hvd.size()


def case_order() -> None:
    """In a graph collectives run in the order of the program, whether their results are used or not."""

    def program(tensor: Any) -> Any:
        for _ in tf.range(5):
            hvd.broadcast(tensor, 0)
            tensor = hvd.allreduce(tensor) + 1
            hvd.allgather(tensor[: hvd.rank()])
        return tensor

    assert_equal(tf.fill((3,), 5.0), tf.function(program)(tf.zeros(3)))


def case_refusals() -> None:
    """Wrong use is a ConfigError; in a graph TensorFlow's error has our text; XLA is refused with what to do."""
    expect_error(TypeError, "complex64", lambda: hvd.allreduce(tf.zeros(2, tf.complex64)))
    graph = tf.function(lambda: hvd.allreduce(tf.zeros(2, tf.complex64)))
    expect_error(tf.errors.InvalidArgumentError, "WrongTypeError: allreduce does not support complex64", graph)
    compiled = tf.function(lambda: hvd.allreduce(tf.zeros(2)), jit_compile=True)
    expect_error(Exception, "ConfigError: a collective cannot be part of a function that XLA compiles", compiled)
    inside = tf.function(lambda: tf.cond(tf.constant(1) > 0, lambda: hvd.allreduce(tf.zeros(2)), lambda: tf.zeros(2)))
    expect_error(Exception, "use jit_compile=False", tf.function(inside, jit_compile=True))
    assert_equal(tf.zeros(2), inside())


if __name__ == "__main__":
    hvd.init()
    run_cases(globals(), sys.argv[1:])
    assert "torch" not in sys.modules
    hvd.shutdown()
