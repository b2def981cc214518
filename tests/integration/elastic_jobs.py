# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs for tests: the program `steps_elastically`, its workers' states, and a hosts file that tests rewrite."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.jobs import Finished, Job, program, ringtune, started

DEADLINE_S = 240.0
QUICK = ("--blacklist-cooldown-range", "0.2", "3")


@dataclass(frozen=True)
class WorkerState:
    """State of a worker after its latest step, as it wrote it."""

    worker: int
    pid: int
    rank: int
    size: int
    step: int


class ElasticJob:
    """A running elastic job and its folder."""

    def __init__(self, job: Job, folder: Path) -> None:
        """Hold both."""
        self.job = job
        self.folder = folder

    def states(self) -> dict[int, WorkerState]:
        """Return the latest state of each worker that has made a step, by worker."""
        return {state.worker: state for state in map(_read, self.folder.glob("state.*"))}

    def world(self) -> list[WorkerState]:
        """Return the workers of the world that made the latest step, by rank; not all may have written it yet."""
        states = list(self.states().values())
        latest = max((state.step for state in states), default=0)
        return sorted((s for s in states if s.step >= latest - 1), key=lambda state: state.rank)

    def until(self, is_so: Callable[[Sequence[WorkerState]], bool]) -> list[WorkerState]:
        """Wait until the world is as a test wants it, and return it."""
        end_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < end_s:
            world = self.world()
            if world and is_so(world):
                return world
            assert self.job.process.poll() is None, self.job.wait().text
            time.sleep(0.02)
        self.job.kill()
        raise AssertionError(f"the world is {world}\n{self.job.wait().text}")

    def until_size(self, size: int, *, after_step: int = 0) -> list[WorkerState]:
        """Wait until a world of a size makes steps after a given one, and return it."""
        return self.until(
            lambda world: (
                len(world) == size
                and [state.rank for state in world] == list(range(size))
                and all(state.size == size and state.step > after_step for state in world)
            )
        )

    def until_replaced(self, *lost: WorkerState) -> list[WorkerState]:
        """Wait until ranks as many as before make steps, and no lost worker is among them; return their world.

        A world of the same size that makes later steps may still be the one before the loss was noticed.
        """
        gone = {state.worker for state in lost}
        ranks = list(range(lost[0].size))
        return self.until(
            lambda world: ranks == [state.rank for state in world] and not gone & {state.worker for state in world}
        )

    def order(self, name: str) -> None:
        """Leave an order in the folder; see `steps_elastically`."""
        (self.folder / name).touch()

    def kill(self, *workers: WorkerState) -> int:
        """Kill workers at once; return the step that they had reached."""
        for worker in workers:
            os.kill(worker.pid, signal.SIGKILL)
        return max(worker.step for worker in workers)

    def finish(self) -> Finished:
        """Have all workers stop together, and wait for the end of the job."""
        self.order("stop")
        return self.job.wait(DEADLINE_S)


def write_hosts(folder: Path, *lines: str) -> str:
    """Write the file of hosts in one move; return the discovery script that prints it."""
    unfinished = folder / "hosts.unfinished"
    unfinished.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    unfinished.replace(folder / "hosts")
    return f"cat {folder}/hosts"


def elastic_command(folder: Path, *options: str, command: Sequence[str] | None = None) -> list[str]:
    """Return the command line of an elastic job, which is quick to forgive a host."""
    worker = program("steps_elastically", str(folder)) if command is None else [*command]
    return ringtune("run", *QUICK, *options, *worker)


@contextmanager
def elastic_job(
    folder: Path,
    *options: str,
    environ: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    command: Sequence[str] | None = None,
) -> Iterator[ElasticJob]:
    """Run an elastic job until the end of the block; no process of it may be left.

    Args:
        folder: Folder for states and orders.
        options: Options of the launcher; later ones win.
        environ: Changes of the environment.
        before: Command that runs the launcher in other surroundings.
        command: Command of the workers; None for `steps_elastically`.
    """
    with started([*before, *elastic_command(folder, *options, command=command)], environ) as job:
        yield ElasticJob(job, folder)


def python(text: str) -> list[str]:
    """Return the command that runs a Python text."""
    return [sys.executable, "-c", text]


def _read(file: Path) -> WorkerState:
    pid, rank, size, step = map(int, file.read_text(encoding="utf-8").split())
    return WorkerState(int(file.suffix[1:]), pid, rank, size, step)
