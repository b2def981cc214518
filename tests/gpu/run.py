# SPDX-License-Identifier: Apache-2.0
"""`make test-gpu`: builds ringtune on a bare machine with a GPU, checks CUDA tensors there, and prints a table.

It needs Python with torch for CUDA, numpy and a C++20 compiler, and no network; wheels that the machine lacks are
brought along in `.gpu-wheels` (`make gpu-wheels`). With `--without-gpu` the same programs run on the CPU: a rehearsal.
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.gpu.building import REPOSITORY, prepare
from tests.gpu.jobs import Job, Row, Running
from tests.gpu.pytest_files import FILES, run_file

TUNED_STEPS = 4000
TUNED = {"AUTOTUNE": "1", "AUTOTUNE_MAX_STEPS": "3600", "AUTOTUNE_SEED": "1"}
SANITIZER = ("compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9")

# NCCL refuses ranks that share a GPU, unless they say that they are on different hosts: `share_the_gpu`.
LIMITED = ("reductions", "packed", "broadcast")
NCCL = {"RINGTUNE_GPU_OPERATIONS": "nccl", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN"}

# Jobs of one phase run at the same time; the last ones, whose speed or memory counts, run alone.
PHASES: tuple[tuple[Job, ...], ...] = (
    (Job("facts", "facts", ranks=1, deadline_s=60.0),),
    (
        Job("operations 2 ranks", "operations"),
        Job("operations 4 ranks", "operations", ranks=4),
        Job("operations TCP", "operations", environ={"RINGTUNE_TRANSPORT": "tcp"}),
        Job("races", "races"),
        Job("training", "training"),
        Job("loops", "loops", deadline_s=200.0),
        Job("refusals", "refusals"),
        Job("memcheck", "short", around=SANITIZER, deadline_s=200.0, is_for_gpu=True),
    ),
    (
        Job("tuned", "tuned", arguments=(str(TUNED_STEPS),), environ=TUNED, deadline_s=120.0),
        Job("untuned", "tuned", arguments=(str(TUNED_STEPS),), deadline_s=120.0),
    ),
    (Job("lost while reducing", "lost_rank", arguments=("copied",), code=137, deadline_s=60.0),),
    (Job("lost while late", "lost_rank", arguments=("late",), code=137, deadline_s=60.0),),
    (
        Job("NCCL 1 rank", "nccl", ranks=1, environ=NCCL, deadline_s=100.0),
        Job("NCCL 2 ranks", "nccl", environ=NCCL, deadline_s=120.0),
        Job("NCCL limited", "nccl", arguments=LIMITED, environ={**NCCL, "RINGTUNE_NCCL_CTAS": "4"}, deadline_s=60.0),
        Job(
            "NCCL unpacked",
            "nccl",
            arguments=LIMITED,
            environ={**NCCL, "RINGTUNE_NCCL_PACK_BYTES": "0"},
            deadline_s=60.0,
        ),
        Job("NCCL races", "races", environ=NCCL, deadline_s=120.0),
        Job("NCCL training", "training", environ=NCCL, deadline_s=120.0, is_for_gpu=True),
    ),
    (Job("NCCL lost", "lost_rank", arguments=("copied",), environ=NCCL, code=137, deadline_s=60.0),),
    (Job("memory", "memory", ranks=1, deadline_s=60.0),),
    (Job("NCCL memory", "memory", ranks=1, environ=NCCL, deadline_s=60.0),),
    (Job("speed 1 rank", "speed", ranks=1, deadline_s=120.0),),
    (Job("speed 2 ranks", "speed", deadline_s=120.0),),
)


class Report:
    """The table so far; written after every job, so that a run that is cut off leaves it."""

    def __init__(self, out: Path) -> None:
        """Begin.

        Args:
            out: Folder for the results.
        """
        out.mkdir(parents=True, exist_ok=True)
        self.rows: list[Row] = []
        self._out = out
        self._log: list[str] = []
        self._begin_s = time.monotonic()

    @property
    def seconds(self) -> int:
        """Since the beginning."""
        return round(time.monotonic() - self._begin_s)

    def add(self, rows: Iterable[Row], log: str = "") -> None:
        """Take lines in, print them, and keep them with the job's output."""
        for row in rows:
            self.rows.append(row)
            figures = ", ".join(f"{name} {value}" for name, value in row.figures.items())
            say(f"{row.status:6}  {row.job:20} {row.check:42} {row.seconds:7.1f} s  {figures}"[:240])
        self._log.append(log)
        results = {"machine": _machine(), "seconds": self.seconds, "rows": [asdict(row) for row in self.rows]}
        (self._out / "results.json").write_text(f"{json.dumps(results, indent=1)}\n", encoding="utf-8")
        (self._out / "log.txt").write_text("\n".join(self._log), encoding="utf-8")

    def conclude(self) -> int:
        """Print the errors and the count; return the process's exit code."""
        failed = [row for row in self.rows if row.status == "FAILED"]
        below = [row for row in self.rows if row.status == "below"]
        for row in failed:
            say(f"\n--- {row.job}: {row.check}\n{row.error[-2500:]}")
        say(f"\n{len(self.rows)} checks in {self.seconds} s: {len(failed)} failed, {len(below)} below their bar")
        return 1 if failed else 0


def main() -> int:
    """Run the command line's checks; return 1 if one failed."""
    options = _options()
    device = "cpu" if options.without_gpu else "cuda"
    report = Report(options.out)
    work = REPOSITORY / "build" / "gpu"
    shutil.rmtree(work / "jobs", ignore_errors=True)
    environ: Mapping[str, str] = {"PYTHONPATH": str(REPOSITORY)}
    if not options.installed:
        environ = prepare(work)
        report.add([Row("build", "engine and packages", "ok", report.seconds)])
    for phase in PHASES:
        jobs = [job for job in phase if _is_chosen(job, options.only, device)]
        for running in [Running(job, device, work / "jobs", environ) for job in jobs]:
            report.add(running.wait(), f"===== {running.job.name}\n{running.text}")
    for name in FILES if device == "cuda" else ():
        report.add(*_run_file(name, options.only, work / "jobs", environ))
    report.add(_compared(report.rows))
    return report.conclude()


def _run_file(name: str, only: Sequence[str], folder: Path, environ: Mapping[str, str]) -> tuple[list[Row], str]:
    """Run a pytest file if it is chosen, and return its lines and its output."""
    if only and name not in only:
        return [], ""
    rows, text = run_file(name, folder, environ)
    return rows, f"===== {name}\n{text}"


def _options() -> Any:
    parser = argparse.ArgumentParser(description="Check CUDA tensors on this machine's GPU.")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "gpu" / "results", help="folder for the log")
    parser.add_argument("--without-gpu", action="store_true", help="rehearse the same programs on the CPU")
    parser.add_argument("--installed", action="store_true", help="use the ringtune that is installed; build nothing")
    parser.add_argument("--only", nargs="*", default=[], help="names of jobs and of pytest files")
    return parser.parse_args()


def _is_chosen(job: Job, names: Sequence[str], device: str) -> bool:
    return (not names or job.name in names) and (device == "cuda" or not job.is_for_gpu)


def _compared(rows: Iterable[Row]) -> list[Row]:
    """Return the check that tuning left the bits alone, where both jobs ran."""
    digests = {row.job: row.figures.get("digest") for row in rows if row.check in {"tuned", "untuned"}}
    if len(digests) < 2:
        return []
    is_same = len(set(digests.values())) == 1
    return [Row("tuned", "bits as without the tuner", "ok" if is_same else "FAILED", 0.0, digests, str(digests))]


def say(line: str) -> None:
    """Print a line at once: a run that is cut off has printed its findings."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _machine() -> dict[str, str]:
    """Return facts of the machine under test."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    gpu = ""
    if shutil.which(query[0]):
        gpu = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return {"python": sys.version.split()[0], "system": platform.platform(), "gpu": gpu or "none"}


if __name__ == "__main__":
    sys.exit(main())
