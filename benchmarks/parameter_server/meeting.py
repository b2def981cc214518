# SPDX-License-Identifier: Apache-2.0
"""Common start and common end of a trial's processes, by files: nothing of it goes over the measured links."""

import time
from collections.abc import Callable
from pathlib import Path

from .trial import SERVER, WORKER, Role

POLL_S = 0.005
LEAD_S = 0.1
"""Time between the word to start and the start: every process has read the word by then."""
LIMIT_S = 60.0


class Meeting:
    """One process's view of the trial's files."""

    def __init__(self, role: Role, clock: Callable[[], float] = time.monotonic) -> None:
        """Read and write in the role's folder; the clock is the machine's, common to all processes."""
        self._folder, self._clock, self._role = role.folder, clock, role
        trial = role.trial
        self._workers = [f"{WORKER}{number}" for number in range(trial.workers)]
        self._all = [*self._workers, *(f"{SERVER}{number}" for number in range(trial.servers))]
        self._last = self._folder / "last_step"

    def start(self) -> float:
        """Wait for all processes, then for a common time; return it."""
        (self._folder / f"{self._role.name}.ready").touch()
        word = self._folder / "start"
        if self._role.kind == WORKER and self._role.number == 0:
            self._await(*(self._folder / f"{name}.ready" for name in self._all))
            _write(word, repr(self._clock() + LEAD_S))
        self._await(word)
        begin_s = float(word.read_text(encoding="ascii"))
        time.sleep(max(0.0, begin_s - self._clock()))
        return begin_s

    def end_after(self, step: int) -> None:
        """Worker 0 names the last step, before it begins it: no other worker has completed that step by then."""
        _write(self._last, str(step))

    def is_over(self, done: int) -> bool:
        """Return whether a worker that has done so many steps has none to do any more."""
        try:
            return done >= int(self._last.read_text(encoding="ascii"))
        except FileNotFoundError:
            return False

    def leave(self) -> None:
        """Say that this worker's steps are done."""
        (self._folder / f"{self._role.name}.done").touch()

    def await_workers(self) -> None:
        """Wait until all workers have left."""
        self._await(*(self._folder / f"{name}.done" for name in self._workers))

    def _await(self, *files: Path) -> None:
        limit_s = self._clock() + LIMIT_S
        while missing := [file.name for file in files if not file.exists()]:
            if self._clock() > limit_s:
                raise TimeoutError(f"{self._role.name} waited {LIMIT_S:g} s for {', '.join(missing)}")
            time.sleep(POLL_S)


def _write(path: Path, text: str) -> None:
    """Write a file that is there with all its text, or not at all."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(text, encoding="ascii")
    unfinished.rename(path)
