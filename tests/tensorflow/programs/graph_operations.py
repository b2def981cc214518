# SPDX-License-Identifier: Apache-2.0
"""Operations in graphs, as far as they differ from numpy functions.

Arguments: the way of gradients, as `choose_way` takes it, and cases, or all.
"""

import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import ringtune.tensorflow as hvd
from ringtune.session.session import SESSION
from ringtune.session.submissions import NO_GROUP, PLAIN_AVERAGE
from ringtune.tensorflow.gradients import GradientPlan, GradientReducer
from ringtune.tensorflow.graph_operations import graph_operations
from tests.integration.plain_rank import expect_error, run_cases
from tests.tensorflow.ways import choose_way

LIMIT_S = 100.0  # far below the engine's own limits
OPERATIONS = {"RingtuneAllreduce", "RingtuneMarkStep"}


def delayed(value: Any, is_time: Callable[[], bool]) -> Any:
    """Return a copy of a tensor that is computed once a condition holds."""

    def wait(array: Any) -> Any:
        began = time.monotonic()
        while not is_time():
            assert time.monotonic() - began < LIMIT_S, "the condition has not come true"
            threading.Event().wait(0.005)
        return array

    # Stateless, so that it is ordered by its arguments alone.
    return tf.ensure_shape(tf.numpy_function(wait, [value], value.dtype, stateful=False), value.shape)


def variables(count: int = 2) -> list[Any]:
    """Return variables of two elements."""
    return [keras.Variable(np.zeros(2, np.float32)) for _ in range(count)]


def counted(name: str) -> int:
    """Return one of the engine's counters."""
    return SESSION.require().engine.counters()[name]


def case_graph() -> None:
    """In a graph dense gradients go through the operations; eagerly, and without a built library, they do not."""
    reducer, own = GradientReducer(GradientPlan()), variables()

    def step(value: Any) -> list[Any]:
        return reducer.reduce([value, 2 * value], own)

    traced = tf.function(step).get_concrete_function(tf.TensorSpec([2], tf.float32))
    used = {operation.type for operation in traced.graph.get_operations()} & OPERATIONS
    assert used == (set() if graph_operations().module is None else OPERATIONS), used
    mean = (hvd.size() - 1) / 2
    for results in (traced(tf.fill((2,), float(hvd.rank()))), step(tf.fill((2,), float(hvd.rank())))):
        assert [[mean] * 2, [2 * mean] * 2] == [result.numpy().tolist() for result in results]


def case_overlap() -> None:
    """The first gradient is combined over the ranks before the last one is computed."""
    own, optimizer = variables(), hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    before = counted("tensors")

    def step(value: Any) -> None:
        optimizer.apply([value, delayed(value, lambda: counted("tensors") > before)], own)

    tf.function(step)(tf.ones(2))

    assert before + 2 == counted("tensors")
    assert [[-1.0, -1.0]] * 2 == [variable.numpy().tolist() for variable in own]


def case_loop() -> None:
    """Steps of a loop inside a graph follow each other, also where their gradients do not depend on earlier ones."""
    own, optimizer = variables(), hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    optimizer.build(own)
    before = counted("steps")

    def body(number: Any) -> Any:
        optimizer.apply([tf.fill((2,), tf.cast(number, tf.float32)), tf.ones(2)], own)
        return (number + 1,)

    tf.function(lambda: tf.while_loop(lambda number: number < 100, body, (tf.constant(0),)))()

    assert 100 == counted("steps") - before
    assert [[-4950.0] * 2, [-100.0] * 2] == [variable.numpy().tolist() for variable in own]


def case_unused() -> None:
    """A gradient is combined also where it has no use, as on ranks whose gradients go another way."""
    reducer, own, before = GradientReducer(GradientPlan()), variables(), counted("tensors")

    tf.function(lambda value: reducer.reduce([value, 2 * value], own)[0])(tf.ones(2))

    assert before + 2 == counted("tensors")


def case_precision() -> None:
    """Scales are used in 64 bits, as the numpy functions use them."""
    reduction = PLAIN_AVERAGE._replace(prescale=1.0 / 3.0, postscale=0.1)
    reducer = GradientReducer(GradientPlan(reduction=reduction))
    value = tf.constant([1e9 + 7, 3.0], tf.float64)
    own = [keras.Variable(np.zeros(2, np.float64), dtype="float64")]

    (in_graph,) = tf.function(lambda: reducer.reduce([tf.identity(value)], own))()
    (eagerly,) = reducer.reduce([value], own)

    assert np.array_equal(eagerly.numpy(), in_graph.numpy())


def case_mismatch() -> None:
    """After an error of one tensor no rank waits for another that some ranks have submitted alone."""
    reducer, own = GradientReducer(GradientPlan()), variables()
    other = [None, *[tf.ones(2)] * (hvd.size() - 1)][hvd.rank()]
    began = time.monotonic()

    step = tf.function(lambda value: reducer.reduce([value, other], own)[0])
    expect_error(tf.errors.InvalidArgumentError, "MismatchError: ", lambda: step(tf.ones(2 + hvd.rank())))

    assert time.monotonic() - began < LIMIT_S
    hvd.barrier()  # no rank leaves while another one may wait
    hvd.shutdown()
    hvd.init()
    assert hvd.size() == float(hvd.allreduce(1.0, op=hvd.Sum))


def case_shutdown() -> None:
    """A step that is under way when the engine is shut down ends with an error."""
    engine = SESSION.require().engine
    before = engine.counters()["full_requests"]
    reducer, own, is_shut_down = GradientReducer(GradientPlan(groups=1)), variables(), threading.Event()

    def step(value: Any) -> None:
        reducer.reduce([value, delayed(value, is_shut_down.is_set)], own)  # a group, of which one part is late

    def shut_down() -> None:
        while engine.counters()["full_requests"] == before:
            threading.Event().wait(0.005)
        hvd.shutdown()
        is_shut_down.set()

    thread = threading.Thread(target=shut_down)
    thread.start()
    words = "RingtuneError: the engine was shut down on this rank while"
    expect_error(tf.errors.UnknownError, words, lambda: tf.function(step)(tf.ones(2)))
    thread.join()
    hvd.init()


def case_late() -> None:
    """Fail the submission to an engine that was shut down."""
    door = SESSION.require().engine.submission_door()
    hvd.shutdown()
    gc.collect()

    def step(value: Any) -> Any:
        operations = graph_operations()
        return operations.allreduce_gradient(tf.constant(door, tf.int64), "late", value, PLAIN_AVERAGE, NO_GROUP)

    words = "RingtuneError: the engine was shut down before 'late' was submitted"
    expect_error(tf.errors.UnknownError, words, lambda: tf.function(step)(tf.ones(2)))
    hvd.init()


if __name__ == "__main__":
    hvd.init()
    choose_way(sys.argv[1], hvd.rank())
    run_cases(globals(), sys.argv[2:])
    hvd.shutdown()
