# SPDX-License-Identifier: Apache-2.0
"""Handles: they keep buffers alive, wait, and name operations without a name."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from ringtune import _engine
from ringtune.errors import ConfigError, MismatchError
from ringtune.identity.gradient_set import GradientSet
from ringtune.session.submissions import Operand
from ringtune.world.handles import (
    DeviceOperation,
    Handle,
    HandleGroup,
    HandleTable,
    Operation,
    start_all,
    wait_for_all,
)


class Buffer:
    """Stands for a tensor."""


class ScriptedEngine:
    """Has operations that end as told: with success, or with a mismatch."""

    def __init__(self, failing: frozenset[int] = frozenset()) -> None:
        self.waited: list[int] = []
        self.waiting_streams: list[tuple[int, int]] = []
        self.undrained: set[int] = set()
        self._failing = failing

    def poll(self, handle: int) -> bool:
        """Return whether it was waited for."""
        return handle in self.waited

    def wait(self, handle: int, device: int = -1, stream: int = 0) -> _engine.Result | None:
        """End at once."""
        self.waited.append(handle)
        self.waiting_streams.append((device, stream))
        if handle in self._failing:
            raise MismatchError(f"operation {handle}")
        return None

    def wait_within(self, handle: int, limit_s: float) -> tuple[bool, _engine.Result | None]:
        """End at once if there is time, and else not."""
        return (True, self.wait(handle)) if limit_s > 0 else (False, None)

    def is_drained(self, handle: int) -> bool:
        """Return whether it was told that no copy of the operation is under way."""
        return handle not in self.undrained


class ScriptedStreams:
    """Has the current stream that a test sets."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.noted: list[object] = []

    def current(self, device: int) -> int:
        """Return the stream."""
        return self.stream

    def note_use(self, owner: object, device: int) -> None:
        """Write the use down."""
        self.noted.append((owner, device, self.stream))


def operation(engine: ScriptedEngine, table: HandleTable, number: int, result: object = None) -> Operation:
    """Return an operation in flight."""
    return Operation(engine, table, number, Buffer(), lambda _: result)


def test_buffers_live_until_their_operation_was_waited_for() -> None:
    """An operation's buffers outlive the caller's handle, until the engine is done with them."""
    engine, table, buffer = ScriptedEngine(), HandleTable(), Buffer()
    alive = weakref.ref(buffer)
    Operation(engine, table, 5, buffer, lambda _: None)

    del buffer
    gc.collect()
    is_alive_while_pending = alive() is not None
    handle = table.get(5)
    assert handle is not None
    handle.wait()
    del handle
    gc.collect()

    assert is_alive_while_pending
    assert alive() is None
    assert 0 == len(table)


def test_an_operation_is_waited_for_once() -> None:
    """The second wait, and a poll after it, are errors."""
    handle = operation(ScriptedEngine(), HandleTable(), 3, "result")

    assert not handle.poll()
    assert "result" == handle.wait()

    for again in (handle.wait, handle.poll):
        with pytest.raises(ConfigError, match="handle 3"):
            again()


def test_a_limited_wait_leaves_what_has_not_ended() -> None:
    """An operation that has not ended in time can be waited for again; its result is made once it has ended."""
    table, made = HandleTable(), list[str]()
    pending = Operation(ScriptedEngine(), table, 3, None, lambda _: made.append("result"))

    has_ended_at_once = pending.has_ended(0.0)
    has_ended_later = pending.has_ended(1.0)

    assert not has_ended_at_once
    assert has_ended_later
    assert ["result"] == made
    assert 0 == len(table)


def test_a_failure_in_a_limited_wait_lets_go_of_the_buffers() -> None:
    """An operation that fails in a limited wait raises its error and is forgotten."""
    table = HandleTable()
    failing = operation(ScriptedEngine(failing=frozenset({3})), table, 3)
    assert isinstance(failing, Operation)

    with pytest.raises(MismatchError):
        failing.has_ended(1.0)

    assert 0 == len(table)


def test_a_refusal_midway_leaves_nothing_in_flight() -> None:
    """Operations before the refused one are waited for, however they end, and the refusal is raised."""
    engine, table = ScriptedEngine(failing=frozenset({1})), HandleTable()

    def operations() -> Iterator[Handle]:
        yield operation(engine, table, 1)
        yield operation(engine, table, 2)
        raise ConfigError("the third is refused")

    with pytest.raises(ConfigError, match="the third"):
        start_all(operations())

    assert [1, 2] == engine.waited
    assert 0 == len(table)


def test_operations_that_all_start_are_in_flight() -> None:
    """Operations come back in their order, without a wait."""
    engine, table = ScriptedEngine(), HandleTable()

    handles = start_all(operation(engine, table, number, number) for number in (1, 2))

    assert [] == engine.waited
    assert [1, 2] == wait_for_all(handles)


def test_equal_numbers_of_two_worlds_are_two_operations() -> None:
    """A handle belongs to its own engine, whatever its number."""
    engines = ScriptedEngine(), ScriptedEngine()
    first, second = (operation(engine, HandleTable(), 1, engine) for engine in engines)

    results = [second.wait(), first.wait()]

    assert [engines[1], engines[0]] == results
    assert [[1], [1]] == [engine.waited for engine in engines]


def test_operations_of_a_world_that_was_left_are_errors() -> None:
    """After shutdown, which clears the table, waiting is an error."""
    table = HandleTable()
    handle = operation(ScriptedEngine(), table, 1)

    table.clear()

    with pytest.raises(ConfigError, match="shutdown"):
        handle.wait()


def test_all_operations_are_waited_for_before_an_error_is_raised() -> None:
    """Buffers of the others may be in use until then; the first error is the one that is raised."""
    engine, table = ScriptedEngine(frozenset({2, 3})), HandleTable()
    handles = [operation(engine, table, number) for number in (1, 2, 3, 4)]

    with pytest.raises(MismatchError, match="operation 2"):
        wait_for_all(handles)

    assert [1, 2, 3, 4] == engine.waited
    assert 0 == len(table)


def test_a_group_makes_one_result_of_many() -> None:
    """A group is done when all of its operations are, and can be called for its result."""
    engine, table = ScriptedEngine(), HandleTable()
    members: list[Handle] = [operation(engine, table, number, number) for number in (1, 2)]
    group = HandleGroup(members, sum)

    assert not group.poll()
    assert 3 == group()


def test_automatic_names_count_per_operation() -> None:
    """The n-th nameless operation of a kind has one name on every rank; a given name is kept."""
    table = HandleTable()

    names = [table.name_for(*call) for call in (("allreduce", None), ("broadcast", None), ("allreduce", None))]

    assert ["allreduce.noname.1", "broadcast.noname.1", "allreduce.noname.2"] == names
    assert "allreduce.loss" == table.name_for("allreduce", "loss")


def test_the_gradient_set_counts_each_name_once() -> None:
    """A gradient that is submitted every step is one gradient of the model."""
    gradients = GradientSet()
    for _ in range(3):
        gradients.add("weight", "torch.float32", (2, 3))
        gradients.add("other", "torch.float32", (2, 3))

    assert {("float32", (2, 3)): 2} == dict(gradients.counts())


def test_the_gradient_set_knows_the_buckets_of_the_last_step() -> None:
    """Rebuilt buckets replace those of the same model; models are told apart."""
    gradients = GradientSet()
    assert () == gradients.bucket_bytes

    gradients.note_buckets("first", (300,))
    gradients.note_buckets("second", (50,))
    gradients.note_buckets("first", (100, 200))

    assert [50, 100, 200] == sorted(gradients.bucket_bytes)


def test_gradients_on_gpus_are_known_as_such() -> None:
    """The first GPU of several; a gradient that has moved counts where it is now."""
    gradients = GradientSet()
    gradients.add("a", "torch.float32", (2,))
    seen = [gradients.gpu]
    for name, gpu in (("a", 3), ("b", 1)):
        gradients.add(name, "torch.float32", (2,), gpu=gpu)
        seen.append(gradients.gpu)

    gradients.discard(["b"])
    seen.append(gradients.gpu)
    gradients.add("a", "torch.float32", (2,))

    assert [None, 3, 1, 3, None] == [*seen, gradients.gpu]
    assert {("float32", (2,)): 1} == gradients.counts()


def device_operation(
    engine: ScriptedEngine, table: HandleTable, number: int, streams: ScriptedStreams, buffer: Buffer
) -> DeviceOperation:
    """Return an operation on device 1 in flight, submitted on the streams' current one."""
    operand = Operand(64, (1,), 0, buffer, device=1, stream=streams.stream, streams=streams)
    return DeviceOperation(engine, table, number, (operand,), lambda _: "result")


def test_the_stream_that_is_current_at_the_wait_waits() -> None:
    """The engine gets the device, and the stream of the waiting thread and not that of the submitting one."""
    engine, table, streams = ScriptedEngine(), HandleTable(), ScriptedStreams(7)
    handle = device_operation(engine, table, 3, streams, Buffer())

    streams.stream = 9
    result = handle.wait()

    assert "result" == result
    assert [(1, 9)] == engine.waiting_streams


def test_memory_of_a_device_is_let_go_after_a_wait_on_its_own_stream() -> None:
    """A later use of the memory comes later on the same stream, so that it need not be kept until a later step."""
    engine, table, streams, buffer = ScriptedEngine(), HandleTable(), ScriptedStreams(7), Buffer()
    engine.undrained.add(3)
    alive = weakref.ref(buffer)
    device_operation(engine, table, 3, streams, buffer).wait()

    del buffer
    gc.collect()

    assert alive() is None
    assert [] == streams.noted


def test_memory_of_a_device_lives_until_drained_after_a_wait_on_another_stream() -> None:
    """Another stream's order does not protect it: the framework is told of the use, and the engine is asked."""
    engine, table, streams, buffer = ScriptedEngine(), HandleTable(), ScriptedStreams(7), Buffer()
    engine.undrained.add(3)
    alive = weakref.ref(buffer)
    handle = device_operation(engine, table, 3, streams, buffer)
    streams.stream = 9
    handle.wait()
    noted, streams.noted = streams.noted, []
    assert [(buffer, 1, 9)] == noted

    del buffer, handle, noted
    gc.collect()
    is_alive_while_copying = alive() is not None
    engine.undrained.clear()
    table.retire(99, engine)
    gc.collect()

    assert is_alive_while_copying
    assert alive() is None


def test_memory_of_a_device_lives_until_drained_after_an_error() -> None:
    """A failed operation may leave a copy under way; the handle is gone all the same."""
    engine, table, streams, buffer = ScriptedEngine(frozenset({3})), HandleTable(), ScriptedStreams(7), Buffer()
    engine.undrained.add(3)
    alive = weakref.ref(buffer)
    handle = device_operation(engine, table, 3, streams, buffer)
    with pytest.raises(MismatchError):
        handle.wait()
    with pytest.raises(ConfigError, match="synchronized before"):
        handle.wait()

    del buffer, handle
    gc.collect()

    assert alive() is not None
    table.clear()
    gc.collect()
    assert alive() is None
