# SPDX-License-Identifier: Apache-2.0
"""Suggestions computed ahead: processes that run a designer, and a thread each that feeds it and keeps its answers.

A request never waits for any of this. A process that dies, or takes too long, is replaced; while none works, asks are
answered with space-filling configs.
"""

import json
import signal
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from ringtune.service.errors import ServiceError
from ringtune.system.child_process import PIPE, Child

from .asked_space import AskedSpace

DesignTask = dict[str, Any]
PROCESS = ("env", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", sys.executable, "-m", f"{__package__}.design_worker")
"""One core each: the linear algebra would take all."""
MAX_WANTED = 1024
"""Studies, or spaces of theirs, that wait; the oldest is forgotten, for the next ask names it again."""
ATTEMPTS = 2
"""Processes that one task is given to, as long as its time lasts: the first may have been killed."""
REST_S = 0.5
"""Before a process is started anew."""
END_S = 2.0


class DesignProcess:
    """One process with a designer. Used by one thread; `end` may come from another."""

    def __init__(self) -> None:
        """Start the process."""
        self._child = Child(PROCESS, stdin=PIPE, stderr=None)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        """Return whether it can be asked."""
        return self._child.exit_code is None

    def ask(self, task: DesignTask, timeout_s: float) -> dict[str, Any] | None:
        """Return the answer, None where there was none in time or the process died."""
        try:
            self._child.write(json.dumps(task, allow_nan=False).encode() + b"\n")
            line = self._child.next_line(timeout_s)
        except (OSError, ValueError):  # died, or was ended by another thread, or was late
            return None
        return None if line is None else dict(json.loads(line))

    def end(self) -> None:
        """End the process, in the middle of its work."""
        self._child.end(0)

    def kill(self) -> None:
        """End the process at once; from another thread, which leaves `end` to the one that uses it."""
        self._child.send_signal(signal.SIGKILL)


class Designing:
    """Threads with a process each. Calls may come from any thread."""

    def __init__(
        self,
        count: int,
        timeout_s: float,
        task_of: Callable[[AskedSpace], DesignTask | None],
        keep: Callable[[AskedSpace, Sequence[dict[str, Any]]], None],
    ) -> None:
        """Prepare; `start` begins.

        Args:
            count: Processes; 0 is allowed.
            timeout_s: Until one that does not answer is replaced.
            task_of: Returns the task of a study in a space, None where there is none.
            keep: Takes the configs for it.
        """
        self._timeout_s = timeout_s
        self._task_of = task_of
        self._keep = keep
        self._wanted: OrderedDict[AskedSpace, None] = OrderedDict()
        self._processes: dict[int, DesignProcess] = {}
        self._is_closed = False
        self._changed = threading.Condition()  # guards the three above and the two below
        self._designs = 0
        self._design_s = 0.0
        self._threads = [
            threading.Thread(target=self._run, args=(place,), name=f"ringtune-design-{place}", daemon=True)
            for place in range(count)
        ]

    def start(self) -> None:
        """Start the threads; each starts its process when there is something to do."""
        for thread in self._threads:
            thread.start()

    def want(self, asked: AskedSpace) -> None:
        """Ask for suggestions for a study in a space, and return at once."""
        with self._changed:
            self._wanted[asked] = None
            if len(self._wanted) > MAX_WANTED:
                self._wanted.popitem(last=False)
            self._changed.notify()

    def figures(self) -> tuple[int, int, float]:
        """Return the numbers of live processes and of computed suggestions, and the seconds that these took."""
        with self._changed:
            alive = sum(process.is_alive for process in self._processes.values())
            return alive, self._designs, self._design_s

    def process_ids(self) -> tuple[int, ...]:
        """Return the numbers of the processes that live."""
        with self._changed:
            return tuple(process.pid for process in self._processes.values() if process.is_alive)

    def close(self) -> None:
        """End threads and processes; their present work is dropped."""
        with self._changed:
            self._is_closed = True
            for process in self._processes.values():
                process.kill()
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(2 * END_S + REST_S)

    def _run(self, place: int) -> None:
        while (asked := self._next()) is not None:
            self._try(place, asked)
        self._drop(place)

    def _try(self, place: int, asked: AskedSpace) -> None:
        try:
            self._design(place, asked)
        except ServiceError as error:  # the database is away, or the study: the next ask wants it again
            structlog.get_logger().warning("design_dropped", study_id=asked.study_id, reason=error.detail)
        except Exception as error:  # noqa: BLE001  (whatever one study raises, the thread and the other studies go on)
            structlog.get_logger().error("design_broken", study_id=asked.study_id, error=repr(error))
            self._drop(place)

    def _next(self) -> AskedSpace | None:
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._is_closed)
            return None if self._is_closed else self._wanted.popitem(last=False)[0]

    def _design(self, place: int, asked: AskedSpace) -> None:
        task = self._task_of(asked)
        if task is None:
            return
        began = time.monotonic()
        answer = self._answer(place, asked, task)
        if answer is None:
            return
        if "error" in answer:
            structlog.get_logger().warning("design_failed", study_id=asked.study_id, reason=answer["error"])
            return
        self._keep(asked, answer["configs"])
        with self._changed:
            self._designs += len(answer["configs"])
            self._design_s += time.monotonic() - began

    def _answer(self, place: int, asked: AskedSpace, task: DesignTask) -> dict[str, Any] | None:
        """Return a process's answer to a task; a task whose process died goes to the next one."""
        end_s = time.monotonic() + self._timeout_s
        for _ in range(ATTEMPTS):
            process = self._process(place)
            if process is None:
                return None
            answer = process.ask(task, max(0.0, end_s - time.monotonic()))
            if answer is not None:
                return answer
            self._drop(place)
            if self._is_closed:
                return None
            structlog.get_logger().warning("design_process_replaced", study_id=asked.study_id, pid=process.pid)
            if time.monotonic() >= end_s:
                return None
        return None

    def _process(self, place: int) -> DesignProcess | None:
        """Return the thread's process, a new one where it died; None when closed."""
        with self._changed:
            process = self._processes.get(place)
            if process is not None and process.is_alive:
                return process
            if self._changed.wait_for(lambda: self._is_closed, REST_S if process is not None else 0.0):
                return None
            if process is not None:
                process.end()
            self._processes[place] = DesignProcess()
            return self._processes[place]

    def _drop(self, place: int) -> None:
        with self._changed:
            process = self._processes.pop(place, None)
        if process is not None:
            process.end()
