# SPDX-License-Identifier: Apache-2.0
"""Train on real images three times with AUTOTUNE=1, and explain the gain of tuning (`make demo`).

The jobs are started as a user would start them; the summary is read from the tuning logs and reports they leave behind.
At the end the first job is timed under the default settings, the tuned ones and plain DDP, in turn. Every part has a
budget of seconds; on busy cores it ends with the results so far.

How often a job ends in which decision: `python examples/demo.py --job 3 --repeat 20`.
"""

import argparse
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from demo_summary import DemoOutcome, complaint, render, speed_lines
from job import REPOSITORY, ExampleJob
from ringtune.system.counts import counted
from ringtune.tuner.review import settings_to_paste

RESULTS = REPOSITORY / "build" / "demo"
# Seconds for the tuner of one job: on idle cores it needs half of them, on busy ones it decides with what it has.
TUNER_SECONDS = 60
SPEED_SECONDS = 45  # for the rounds of the last comparison, which makes three at least
BUDGET = {"AUTOTUNE": "1", "AUTOTUNE_MAX_SECONDS": str(TUNER_SECONDS)}
JOB_LIMIT_S = 1200.0  # a job that takes longer hangs: even start and end of one take a minute where cores are busy


def run_job(job: ExampleJob, report: Path) -> Mapping[str, Any]:
    """Run a job to its end and return its report.

    Raises:
        SystemExit: If the job fails or hangs; says which in words.
    """
    try:
        return job.run(report, timeout_s=JOB_LIMIT_S)
    except subprocess.TimeoutExpired:
        reason = f"did not end within {JOB_LIMIT_S:.0f} s, which is a fault: please report it with the output above"
    except subprocess.CalledProcessError as error:
        reason = f"ended with exit code {error.returncode}; its own messages are above"
    raise SystemExit(f"the demo stops: {job.script} {reason}")


@dataclass(frozen=True)
class DemoRun:
    """One of the three runs."""

    name: str
    title: str
    flags: Sequence[str] = ()
    note: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> DemoOutcome:
        """Train with the terminal as the job's own, and read its log and report.

        Raises:
            SystemExit: See `run_job`.
        """
        log, report = RESULTS / f"{self.name}.jsonl", RESULTS / f"{self.name}.json"
        variables = {**BUDGET, "AUTOTUNE_LOG": str(log), **self.variables}
        job = ExampleJob("examples/digits.py", ["--train-for-tuner", *self.flags], 2, variables)
        return DemoOutcome.read(self.title, log, run_job(job, report), self.note)


RUNS = (
    DemoRun("as_it_is", "a job as it is, under the default settings"),
    DemoRun(
        "poor_baseline",
        "the same job, started with poor settings",
        variables={"AUTOTUNE_BASELINE": "fusion_bytes=0,cycle_ms=20"},
    ),
    DemoRun(
        "nothing_to_gain",
        "a job with nothing to gain: few gradients, long steps",
        flags=("--small", "--batch-size", "256"),
        note="where there is nothing to gain, the test still adopts something in up to one job of twenty, by chance",
    ),
)


def measured_speeds(outcome: DemoOutcome) -> Mapping[str, Sequence[float]]:
    """Return the first job's steps per second in each round, under the default, the tuned settings and plain DDP.

    Raises:
        SystemExit: See `run_job`.
    """
    arguments = ["--store", str(RESULTS / "ddp_store"), "--seconds", str(SPEED_SECONDS)]
    job = ExampleJob("examples/demo_speeds.py", [*arguments, "--tuned", *settings_to_paste(outcome.run)])
    return run_job(job, RESULTS / "speeds.json")


def repeat(run: DemoRun, times: int, console: Console) -> None:
    """Run one job several times, and count its decisions."""
    decisions: Counter[str] = Counter()
    for number in range(1, times + 1):
        verdict = run.run().run.verdict
        decisions[verdict.partition(":")[0]] += 1
        load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
        console.print(f"{number} of {times}: {verdict}; load {load}", style="bold", markup=False, soft_wrap=True)
    counts = ", ".join(f"{count} {decision}" for decision, count in decisions.most_common())
    console.print(f"{run.title}: {counts}, of {counted(times, 'run')}", style="bold", markup=False, soft_wrap=True)


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description="Show what tuning gains, on three jobs.")
    parser.add_argument("--job", type=int, choices=range(1, len(RUNS) + 1), help="run this one alone")
    parser.add_argument(
        "--repeat", type=int, default=1, metavar="TIMES", help="number of runs of --job; the decisions are counted"
    )
    return parser.parse_args()


def main() -> None:
    """Run the three jobs and print the summary; or one of them several times, and count.

    Raises:
        SystemExit: See `run_job`.
    """
    arguments = parse_arguments()
    console = Console()
    shutil.rmtree(RESULTS, ignore_errors=True)
    if arguments.job is not None:
        repeat(RUNS[arguments.job - 1], arguments.repeat, console)
        return
    started = time.monotonic()
    outcomes = []
    for number, run in enumerate(RUNS, start=1):
        console.rule(f"[bold]{number} of {len(RUNS)}: {run.title}")
        console.print(" ".join(f"{name}={value}" for name, value in {**BUDGET, **run.variables}.items()), style="dim")
        outcomes.append(run.run())
    console.rule("[bold]the first job's speed in each way, in turn")
    speeds = measured_speeds(outcomes[0])
    render(outcomes, console, seconds=time.monotonic() - started)
    for line in (*complaint(outcomes, TUNER_SECONDS), *speed_lines(speeds)):
        console.print(line, style="bold", markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
