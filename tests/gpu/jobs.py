# SPDX-License-Identifier: Apache-2.0
"""Jobs of ranks that run a program of checks, each with a deadline, and the outcomes that their ranks recorded."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ENVIRON = {
    "AUTOTUNE_CACHE": "0",
    "AUTOTUNE_LOCK": "0",
    "OMP_NUM_THREADS": "1",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONUNBUFFERED": "1",
    "RINGTUNE_ALGORITHM_TABLE": "default",
    "RINGTUNE_TIMEOUT_S": "60",
}
LOG_BYTES = 200_000  # bytes of each job's output that the log keeps


@dataclass(frozen=True)
class Job:
    """Ranks of one program.

    Attributes:
        name: For the table; distinct.
        program: Module below `tests.gpu.programs`.
        ranks: Their number.
        arguments: After the device and the file for the outcomes.
        environ: Added to the environment of all jobs.
        around: Command that each rank is run by, such as a checking tool.
        deadline_s: When the job is killed.
        code: The exit code of a job that ends well.
        is_for_gpu: Whether it has no meaning without a GPU.
    """

    name: str
    program: str
    ranks: int = 2
    arguments: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    around: Sequence[str] = ()
    deadline_s: float = 150.0
    code: int = 0
    is_for_gpu: bool = False


@dataclass
class Row:
    """A line of the table: one check of one job."""

    job: str
    check: str
    status: str
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)
    error: str = ""


class Running:
    """A job in flight."""

    def __init__(self, job: Job, device: str, folder: Path, environ: Mapping[str, str]) -> None:
        """Start it.

        Args:
            job: The job to run.
            device: Type of the device that is checked.
            folder: For its files.
            environ: Finds ringtune.
        """
        self.job = job
        self._begin_s = time.monotonic()
        self._folder = folder / job.name.replace(" ", "_")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._log = self._folder / "log.txt"
        program = [sys.executable, "-m", f"tests.gpu.programs.{job.program}", device, str(self._folder / "outcome")]
        command = [*job.around, *program, *job.arguments]
        launcher = [sys.executable, "-m", "ringtune.cli", "run", "-np", str(job.ranks)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*launcher, *command],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **ENVIRON, **environ, **job.environ},
                start_new_session=True,
            )

    def wait(self) -> list[Row]:
        """Wait for its end, or kill it at its deadline, and return its outcomes."""
        left_s = self.job.deadline_s - (time.monotonic() - self._begin_s)
        note = ""
        try:
            code = self._process.wait(timeout=max(1.0, left_s))
        except subprocess.TimeoutExpired:
            note = f"ran past its deadline of {self.job.deadline_s:.0f} s"
            self._kill()
            code = self._process.wait()
        seconds = round(time.monotonic() - self._begin_s, 1)
        rows = list(self._rows())
        is_good = code == self.job.code and not note and rows
        error = "" if is_good else f"exit code {code}, expected {self.job.code}; {note}\n{self.text[-3000:]}"
        return [*rows, Row(self.job.name, "the job ends well", "ok" if is_good else "FAILED", seconds, {}, error)]

    @property
    def text(self) -> str:
        """Return the end of its output."""
        return self._log.read_bytes()[-LOG_BYTES:].decode(errors="replace")

    def _kill(self) -> None:
        """Ask, then kill the launcher with its ranks."""
        for number, wait_s in ((signal.SIGTERM, 15.0), (signal.SIGKILL, 5.0)):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=wait_s)

    def _rows(self) -> Iterator[Row]:
        """Return the checks; one that failed on a rank has failed."""
        by_check: dict[str, list[dict[str, Any]]] = {}
        for path in sorted(self._folder.glob("outcome.*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                outcome = json.loads(line)
                by_check.setdefault(outcome["check"], []).append(outcome)
        for check, outcomes in by_check.items():
            yield _row(self.job.name, check, outcomes)


def _row(job: str, check: str, outcomes: Sequence[dict[str, Any]]) -> Row:
    """Return the line for a check, from each rank's outcome."""
    figures = dict(next((each["figures"] for each in outcomes if each.get("figures")), {}))
    is_below = bool(figures.pop("is_below", False)) or any(each.get("is_below") for each in outcomes)
    errors = [each.get("error", "no error was written down") for each in outcomes if not each["passed"]]
    status = "FAILED" if errors else "below" if is_below else "ok"
    return Row(job, check, status, max(each.get("seconds", 0.0) for each in outcomes), figures, "\n".join(errors))
