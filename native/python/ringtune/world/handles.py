# SPDX-License-Identifier: Apache-2.0
"""Operations in flight: objects kept alive until they are synchronized, and names for operations without one.

A handle is an object that knows its engine, so that handles of different worlds are never taken for each other. The
table of its world holds it until the engine has let go of its buffers, whatever the caller does with it.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ringtune import _engine
from ringtune.errors import ConfigError, RingtuneError

Finish = Callable[[_engine.Result | None], Any]
"""Called with the engine's result once an operation is done; returns the result of `synchronize`."""


class WaitingEngine(Protocol):
    """Part of `_engine.Engine` that a handle uses."""

    def poll(self, handle: int) -> bool:
        """See `_engine.Engine`."""

    def wait(self, handle: int, device: int = -1, stream: int = 0) -> _engine.Result | None:
        """See `_engine.Engine`."""

    def wait_within(self, handle: int, limit_s: float) -> tuple[bool, _engine.Result | None]:
        """See `_engine.Engine`."""

    def is_drained(self, handle: int) -> bool:
        """See `_engine.Engine`."""


class Streams(Protocol):
    """The streams of a framework's devices."""

    def current(self, device: int) -> int:
        """Return the calling thread's current stream on a device, as the engine takes it."""

    def note_use(self, owner: Any, device: int) -> None:
        """Keep memory from being reused before the work on the current stream is done that was enqueued so far."""


class DeviceBuffer(Protocol):
    """Memory of a device operation; `ringtune.session.submissions.Operand` is one."""

    @property
    def owner(self) -> Any:
        """The object that must live so that the memory does."""

    @property
    def device(self) -> int:
        """The device's number."""

    @property
    def stream(self) -> int:
        """The stream that was current when the operation was submitted."""

    @property
    def streams(self) -> Streams | None:
        """The streams of the framework that the memory belongs to."""


class Handle:
    """An operation in flight, as `poll` and `synchronize` take it."""

    __slots__ = ()

    def poll(self) -> bool:
        """Return whether `wait` would return, or raise, at once.

        Raises:
            ConfigError: If it was synchronized before.
        """
        raise NotImplementedError

    def wait(self) -> Any:
        """Wait for the end and return the result.

        Raises:
            ConfigError: If it was synchronized before, or its world was left.
            MismatchError: If ranks submitted different shapes, dtypes or operations.
            EngineError: If the world is lost.
        """
        raise NotImplementedError


class Operation(Handle):
    """One operation of the engine."""

    __slots__ = ("_buffers", "_engine", "_finish", "_number", "_table")

    def __init__(self, engine: WaitingEngine, table: "HandleTable", number: int, buffers: Any, finish: Finish) -> None:
        """Stand for a submitted operation.

        Args:
            engine: Engine to which it was submitted.
            table: Table of the same world; holds the operation until the engine is done with it.
            number: The engine's handle.
            buffers: Owners of the memory that the engine reads and writes.
            finish: Function that makes the result.
        """
        self._engine = engine
        self._table = table
        self._number = number
        self._buffers = buffers
        self._finish = finish
        table.add(number, self)

    def poll(self) -> bool:
        """See `Handle`."""
        self._check_in_flight()
        return self._engine.poll(self._number)

    def wait(self) -> Any:
        """See `Handle`."""
        self._check_in_flight()
        try:
            result = self._engine.wait(self._number)
        except RingtuneError:  # the engine has let go of the buffers; Ctrl-C, in contrast, leaves all as it is
            self._table.forget(self._number)
            raise
        self._table.forget(self._number)
        return self._finish(result)

    def has_ended(self, limit_s: float) -> bool:
        """Wait for a limited time; return whether the operation has ended, its result made and the handle of no use.

        Args:
            limit_s: Longest wait, seconds.

        Raises:
            ConfigError: As `wait`.
            MismatchError: As `wait`.
            EngineError: As `wait`.
        """
        self._check_in_flight()
        try:
            has_ended, result = self._engine.wait_within(self._number, limit_s)
        except RingtuneError:
            self._table.forget(self._number)
            raise
        if has_ended:
            self._table.forget(self._number)
            self._finish(result)
        return has_ended

    def _check_in_flight(self) -> None:
        if self._table.get(self._number) is not self:
            raise ConfigError(
                f"there is no operation with handle {self._number}; it was synchronized before, or shutdown() ended it"
            )


class DeviceOperation(Operation):
    """One operation of the engine on the memory of a device.

    `wait` returns once the result is enqueued: the stream that is current then waits for it, the host does not. Later
    work on that stream, `finish` included, finds the result in place.
    """

    __slots__ = ()

    _buffers: Sequence[DeviceBuffer]

    def wait(self) -> Any:
        """See `Handle`."""
        self._check_in_flight()
        source, *_ = self._buffers
        if source.streams is None:
            raise AssertionError("memory of a device comes with the streams of its framework")
        stream = source.streams.current(source.device)
        try:
            result = self._engine.wait(self._number, source.device, stream)
        except RingtuneError:  # a copy may still be under way
            self._table.retire(self._number, self._engine)
            raise
        if stream == source.stream:  # what reuses the memory comes after the result, in the order of this stream
            self._table.forget(self._number)
        else:
            for buffer in self._buffers:
                source.streams.note_use(buffer.owner, source.device)
            self._table.retire(self._number, self._engine)
        return self._finish(result)

    def has_ended(self, limit_s: float) -> bool:
        """See `Operation`; waits without a limit until the result is enqueued."""
        del limit_s
        self.wait()
        return True


class HandleGroup(Handle):
    """Several operations that are waited for together; the result is made of theirs."""

    __slots__ = ("_finish", "_handles")

    def __init__(self, handles: Sequence[Handle], finish: Callable[[list[Any]], Any]) -> None:
        """Join handles.

        Args:
            handles: In the order in which `finish` takes their results.
            finish: Makes the result.
        """
        self._handles = tuple(handles)
        self._finish = finish

    def poll(self) -> bool:
        """See `Handle`."""
        return all(handle.poll() for handle in self._handles)

    def wait(self) -> Any:
        """See `Handle`; the first error is raised once all operations have ended."""
        return self._finish(wait_for_all(self._handles))

    def __call__(self) -> Any:
        """Wait: Horovod's handle of a sparse allreduce is called for its result."""
        return self.wait()


def start_all(operations: Iterable[Handle]) -> list[Handle]:
    """Start operations one after the other: all of them, or none stays in flight.

    Args:
        operations: Starts an operation with each step of the iteration.

    Raises:
        RingtuneError: If an operation was refused; those that had been started have ended by then.
    """
    started: list[Handle] = []
    try:
        for handle in operations:
            started.append(handle)  # noqa: PERF402  (those before an error must be there)
    except RingtuneError:
        for handle in started:
            _outcome(handle)
        raise
    return started


def wait_for_all(handles: Sequence[Handle]) -> list[Any]:
    """Wait for all operations and return their results in order; raise the first error once all have ended."""
    outcomes = [_outcome(handle) for handle in handles]
    for _, error in outcomes:
        if error is not None:
            raise error
    return [result for result, _ in outcomes]


def _outcome(handle: Handle) -> tuple[Any, RingtuneError | None]:
    try:
        return handle.wait(), None
    except RingtuneError as error:
        return None, error


class HandleTable:
    """The operations of one world that are not synchronized yet. Thread-safe, for gradient hooks have threads."""

    def __init__(self) -> None:
        self._in_flight: dict[int, Handle] = {}  # needs no lock: each change is one operation of the interpreter
        self._draining: dict[int, Handle] = {}  # likewise
        self._lock = threading.Lock()  # guards _name_counts
        self._name_counts: Counter[str] = Counter()

    def add(self, number: int, handle: Handle) -> None:
        """Hold an operation, and thereby its buffers."""
        self._in_flight[number] = handle

    def get(self, number: int) -> Handle | None:
        """Return an operation; None when the number is unknown or was forgotten."""
        return self._in_flight.get(number)

    def forget(self, number: int) -> None:
        """Let go of an operation, once the engine no longer touches its buffers."""
        self._in_flight.pop(number, None)

    def retire(self, number: int, engine: WaitingEngine) -> None:
        """Forget an operation that was waited for, and hold its buffers until its engine no longer touches them."""
        handle = self._in_flight.pop(number, None)
        if handle is not None:
            self._draining[number] = handle
        for waiting in list(self._draining):  # in about the order in which they end
            if not engine.is_drained(waiting):
                break
            self._draining.pop(waiting, None)

    def __len__(self) -> int:
        """Return how many operations are in flight."""
        return len(self._in_flight)

    def clear(self) -> None:
        """Forget every operation, once the engine no longer touches their buffers."""
        self._in_flight.clear()
        self._draining.clear()

    def name_for(self, operation: str, name: str | None) -> str:
        """Return `name` under its operation, or the next automatic name, equal on ranks that call in one order."""
        if name is not None:
            return f"{operation}.{name}"
        with self._lock:
            self._name_counts[operation] += 1
            return f"{operation}.noname.{self._name_counts[operation]}"
