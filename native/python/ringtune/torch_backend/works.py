# SPDX-License-Identifier: Apache-2.0
"""Torch's `Work` for operations of the engine: a caller that waits does the engine's work itself.

No thread completes a work. A future awaited without a call of ours, as DDP's for its buckets, is served where the
backward pass ends; for all else `FutureKeeper` looks now and then.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch.distributed import Work

from ringtune.errors import CollectiveTimeout, RingtuneError

COMPARE_S = 0.5  # interval between two looks of a caller that waits at the calls of other ranks; test_torch_backend.py
_LOOK_S = 0.0005  # between two looks of the keeper's thread: as long as a small collective takes on a busy machine
_PASS_LOOK_S = 0.002  # likewise in a backward pass, whose end comes first as a rule
_PASS_GRACE_S = 1.0  # callbacks may start collectives: in the order of the pass's end, which is that of all ranks
_IDLE_S = 5.0  # the keeper's thread ends after so long without a future


class Pending(Protocol):
    """Operation in flight, as a work uses it; `ringtune.world.handles.Operation` is one."""

    def poll(self) -> bool:
        """Return whether it has ended."""

    def has_ended(self, limit_s: float) -> bool:
        """Wait for a limited time and return whether it has ended."""


class Surroundings(Protocol):
    """The group that a work belongs to."""

    def check(self) -> None:
        """Raise the reason why a work that is waited for cannot end, if there is one."""

    def explained(self, work: "EngineWork", error: RingtuneError) -> RingtuneError:
        """Return an error of the engine in the group's terms."""

    def forget(self, work: "EngineWork") -> None:
        """Take note that a work has ended."""

    @property
    def futures(self) -> "FutureKeeper":
        """Keeper of the futures that no caller drives."""


class EngineWork(Work):
    """One call of a process group. Thread-safe.

    Attributes:
        call: Text of the call, as ranks compare it.
        number: Number of the call in its group.
        has_callbacks: Whether something waits for the future by a callback, which may start the next collective.
    """

    def __init__(  # noqa: PLR0917  (one call a collective: keywords cost a tenth of a microsecond each)
        self,
        group: Surroundings,
        call: str,
        number: int,
        pending: Sequence[Pending],
        outputs: list[torch.Tensor],
        limit_s: float | None = None,
    ) -> None:
        """Stand for a call.

        Args:
            group: The group.
            call: Text of the call.
            number: Number of the call in its group.
            pending: Operations of the engine that it consists of.
            outputs: Tensors that its future holds.
            limit_s: Time limit of this call, seconds; None for the group's, which the engine keeps.
        """
        super().__init__()
        self.call = call
        self.number = number
        self._group = group
        self._pending = list(pending)
        self._outputs = outputs
        self._limit_s = limit_s
        self._lock = threading.Lock()  # guards _pending; held while the engine is waited for
        self._is_over = False
        self._error: Exception | None = None
        self._future_lock = threading.Lock()  # guards the two below; held for a look alone
        self._future: WorkFuture | None = None
        self._is_future_complete = False
        self.has_callbacks = False

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return once the outputs are there; see torch.

        Args:
            timeout: Longest wait; None or zero for the time limit of the call.

        Raises:
            CollectiveTimeout: If the time is over; the operation goes on.
            MismatchError: If ranks have called different things.
            EngineError: If the world is lost.
        """
        if not self._is_over:
            limit_s = timeout.total_seconds() if timeout is not None and timeout > timedelta() else self._limit_s
            with self._lock:
                self._pursue(limit_s)
        if self._error is not None:
            raise self._error
        return True

    def finish(self) -> None:
        """Wait for the end, and raise no error."""
        with suppress(RingtuneError):
            self.wait()

    @property
    def is_over(self) -> bool:
        """True if it has ended and somebody has seen that; `is_completed` looks."""
        return self._is_over

    def is_completed(self) -> bool:
        """Return whether `wait` would return, or raise, at once."""
        return self._is_over or self.try_to_end()

    def is_success(self) -> bool:
        """Return whether it has ended without an error."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """Return the error with which it has ended."""
        return self._error

    def synchronize(self) -> None:
        """Wait: later work on the caller's stream finds the outputs."""
        self.wait()

    def result(self) -> list[torch.Tensor]:
        """Return the outputs."""
        return self._outputs

    def get_future(self) -> "torch.futures.Future[list[torch.Tensor]]":
        """Return a future of the outputs; waiting for it drives the engine, as `wait` does."""
        with self._future_lock:
            if self._future is None:
                self._future = WorkFuture(self)
        if self._is_over:
            self.complete_future()
        else:
            self._group.futures.keep(self)
        return self._future

    def complete_future(self) -> None:
        """Give the future its value, once the work has ended; whoever has seen the end calls this."""
        with self._future_lock:
            future = self._future
            if future is None or self._is_future_complete:
                return
            self._is_future_complete = True
        if self._error is not None:
            future.set_exception(self._error)  # type: ignore[arg-type]
        else:
            future.set_result(self._outputs)

    def try_to_end(self) -> bool:
        """End it if that takes no waiting; return whether it has ended."""
        if self._is_over or not self._lock.acquire(blocking=False):
            return self._is_over
        try:
            if not self._is_over and all(operation.poll() for operation in self._pending):
                self._pursue(None)
        except RingtuneError as error:
            self._end(error)
        finally:
            self._lock.release()
        return self._is_over

    def _pursue(self, limit_s: float | None) -> None:
        """Wait for one operation after the other; the lock is held."""
        waited_s = 0.0
        while self._pending and not self._is_over:
            look_s = COMPARE_S if limit_s is None else min(COMPARE_S, max(limit_s, 0.001))
            try:
                if self._pending[0].has_ended(look_s):
                    del self._pending[0]
                    continue
                waited_s += look_s
                self._group.check()
            except RingtuneError as error:
                self._end(self._group.explained(self, error))
                return
            if limit_s is not None and waited_s >= limit_s:
                raise overdue(self.call, self.number, limit_s)
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._error = error
        self._is_over = True
        self._group.forget(self)
        self.complete_future()


def overdue(call: str, number: int, limit_s: float) -> CollectiveTimeout:
    """Return the error of a wait that has reached its time limit."""
    return CollectiveTimeout(
        f"{call} (call {number} of its group) did not end within {limit_s:g} s: "
        "another rank has not come to it; check that rank's log, or raise the time limit"
    )


class WorkFuture(torch.futures.Future[list[torch.Tensor]]):
    """Future of a work, or of a callback's result; waiting for it waits for the work."""

    def __init__(self, work: EngineWork) -> None:
        """Begin without a value.

        Args:
            work: The work.
        """
        super().__init__()
        self._work = work

    def wait(self) -> Any:
        """Return the value, or raise the error."""
        if not self.done():
            try:
                self._work.wait()
            except RingtuneError:
                if not self.done():
                    raise
        return super().wait()

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        """Call a function with this future once it is done."""
        self._work.has_callbacks = True
        super().add_done_callback(callback)

    def then(self, callback: Callable[[Any], Any]) -> "WorkFuture":  # type: ignore[override]
        """Return a future of the callback's result; the callback runs once this one is done."""
        child = WorkFuture(self._work)

        def run(parent: Any) -> None:
            try:
                child.set_result(callback(parent))
            except Exception as error:  # noqa: BLE001  (a future holds any error)
                child.set_exception(error)  # type: ignore[arg-type]

        self.add_done_callback(run)
        return child


class FutureKeeper:
    """Futures whose work may be awaited by no caller: torch's C++ waits for a future itself, and drives no engine.

    In a backward pass, the works are waited for when it ends, before DDP looks at its buckets. For all else a thread
    looks for works that have ended: for callbacks, and for DDP with a static graph, whose first pass starts and awaits
    its buckets after the end.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._changed = threading.Condition()  # guards all below
        self._passes: dict[int, list[EngineWork]] = {}
        self._kept: list[tuple[EngineWork, float]] = []  # with the time before which callbacks are the pass's own
        self._is_running = False
        self._look_s = _PASS_LOOK_S

    def keep(self, work: EngineWork) -> None:
        """See that the future of a work is completed."""
        graph_task = torch._C._current_graph_task_id()  # noqa: SLF001  (-1 outside of a backward pass)
        with self._changed:
            is_first_of_pass = graph_task != -1 and graph_task not in self._passes
            if graph_task == -1:
                self._look_s = _LOOK_S
                self._kept.append((work, 0.0))
            else:
                self._passes.setdefault(graph_task, []).append(work)
                self._kept.append((work, time.monotonic() + _PASS_GRACE_S))
            self._set_going()
        if is_first_of_pass:
            engine = torch.autograd.Variable._execution_engine  # noqa: SLF001
            engine.queue_callback(lambda: self._end_pass(graph_task))

    def _set_going(self) -> None:
        if self._is_running:
            self._changed.notify()
            return
        self._is_running = True
        threading.Thread(target=self._run, name="ringtune-futures", daemon=True).start()

    def _end_pass(self, graph_task: int) -> None:
        with self._changed:
            works = self._passes.pop(graph_task, [])
        for work in works:
            work.finish()
        for work in works:
            work.wait()  # raises the first error

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._kept:
                    self._look_s = _PASS_LOOK_S
                    self._changed.wait(_IDLE_S)
                kept, look_s = list(self._kept), self._look_s
                if not kept:
                    self._is_running = False
                    return
            time.sleep(look_s)
            now_s = time.monotonic()
            ended = {
                id(work)
                for work, own_until_s in kept
                if (not work.has_callbacks or now_s >= own_until_s) and work.try_to_end()
            }
            with self._changed:
                self._kept = [pair for pair in self._kept if id(pair[0]) not in ended]
