# SPDX-License-Identifier: Apache-2.0
"""Checks the TensorFlow front end: the shared cases, eagerly and in graphs, and its own. Arguments: cases."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import ringtune.tensorflow as hvd
from tests.collectives.cases import bound
from tests.collectives.tensorflow_front_end import TensorFlowFrontEnd, TensorFlowGraph
from tests.integration.plain_rank import expect_error, run_cases


def both_ways(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return a function as it is and as a graph."""
    return [function, tf.function(function)]


def own(dtype: Any = tf.float32, rows: int = 3, rank: int | None = None) -> Any:
    """Return a rank's values: shape (rows, 2), small whole numbers."""
    rank = hvd.rank() if rank is None else rank
    return tf.cast(tf.reshape(tf.range(2 * rows) % 4 + rank, (rows, 2)), dtype)


def assert_equal(expected: Any, got: Any, *about: object) -> None:
    """Require equal dtype, shape and values."""
    expected = tf.convert_to_tensor(expected)
    assert expected.dtype == got.dtype, (expected, got, *about)
    assert expected.shape == got.shape, (expected, got, *about)
    same = np.allclose(tf.cast(expected, tf.float64).numpy(), tf.cast(got, tf.float64).numpy(), 1e-2, 1e-2)
    assert same, (expected, got, *about)


def case_meanings() -> None:
    """Scales, compression and Adasum of variables; shapes are known in the graph."""
    ones = tf.Variable(tf.ones(4))
    assert_equal(tf.ones(4) * 3, hvd.allreduce(ones, prescale_factor=6.0, postscale_factor=0.5))
    assert_equal(tf.ones(4) * hvd.size(), hvd.allreduce(ones, average=False, compression=hvd.Compression.bf16))
    assert_equal(
        tf.ones(4), tf.function(lambda: hvd.allreduce(ones, op=hvd.Adasum, compression=hvd.Compression.fp16))()
    )
    traced = tf.function(hvd.allreduce).get_concrete_function(tf.TensorSpec((None, 2)))
    assert [None, 2] == traced.output_shapes.as_list(), traced


def case_traced_splits() -> None:
    """Splits may be a tensor of the graph."""
    splits = tf.function(hvd.alltoall)(own(rows=hvd.size()), tf.ones(hvd.size(), tf.int32))[1]
    assert_equal(tf.ones(hvd.size(), tf.int32), splits)


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


def case_minima() -> None:
    """Min and Max have no gradient, and say so."""
    with tf.GradientTape() as tape:
        tensor = own()
        tape.watch(tensor)
        largest = hvd.allreduce(tensor, op=hvd.Max)
    expect_error(hvd.ConfigError, "Max", lambda: tape.gradient(largest, tensor))


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
    received = hvd.broadcast_object(data, last)
    assert (last, 0.1) == (received["step"], received["rate"])
    assert_equal(own(tf.bfloat16, rank=last), received["tensor"])
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


def case_refusals_in_graphs() -> None:
    """In a graph TensorFlow's error has our text; XLA is refused with advice."""
    graph = tf.function(lambda: hvd.allreduce(tf.zeros(2, tf.complex64)))
    expect_error(tf.errors.InvalidArgumentError, "WrongTypeError: allreduce does not support complex64", graph)
    compiled = tf.function(lambda: hvd.allreduce(tf.zeros(2)), jit_compile=True)
    expect_error(Exception, "ConfigError: a collective cannot be part of a function that XLA compiles", compiled)
    inside = tf.function(lambda: tf.cond(tf.constant(1) > 0, lambda: hvd.allreduce(tf.zeros(2)), lambda: tf.zeros(2)))
    expect_error(Exception, "use jit_compile=False", tf.function(inside, jit_compile=True))
    assert_equal(tf.zeros(2), inside())


if __name__ == "__main__":
    hvd.init()
    in_graphs = {f"{name}_in_graphs": case for name, case in bound(TensorFlowGraph()).items()}
    run_cases({**bound(TensorFlowFrontEnd()), **in_graphs, **globals()}, sys.argv[1:])
    assert "torch" not in sys.modules
    hvd.shutdown()
