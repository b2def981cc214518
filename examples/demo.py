# SPDX-License-Identifier: Apache-2.0
"""Train on real images three times with AUTOTUNE=1, and explain what tuning gained: what `make demo` runs.

The jobs are started as a user would start them; the summary is read from the tuning logs and reports they leave behind.
"""

import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from demo_summary import Outcome, complaint, render
from job import REPOSITORY, Job

RESULTS = REPOSITORY / "build" / "demo"
TUNER_SECONDS = 150  # per job, at most: half of it is enough where the machine does nothing else
# Smaller than the default budget, so that three jobs end within minutes on a busy machine too.
BUDGET = {"AUTOTUNE": "1", "AUTOTUNE_MAX_SAMPLES": "12", "AUTOTUNE_STEPS_PER_SAMPLE": "35"}
JOB_TIMEOUT_S = 240.0


@dataclass(frozen=True)
class DemoRun:
    """One of the three runs."""

    name: str
    title: str
    flags: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> Outcome:
        """Train with the terminal as the job's own, and read what came of it.

        Raises:
            SystemExit: If the job fails or takes too long.
        """
        log, report = RESULTS / f"{self.name}.jsonl", RESULTS / f"{self.name}.json"
        variables = {**BUDGET, "AUTOTUNE_LOG": str(log), **self.variables}
        job = Job("examples/digits.py", ["--train-for-tuner", *self.flags], 2, variables)
        try:
            return Outcome.read(self.title, log, job.run(report, timeout_s=JOB_TIMEOUT_S))
        except subprocess.SubprocessError as error:
            raise SystemExit(f"the demo stops, because one of its jobs did: {error}") from error


RUNS = (
    DemoRun("as_it_is", "the job as it is"),
    DemoRun(
        "poor_baseline",
        "the same job from a poor baseline, which the tuner must repair",
        variables={"AUTOTUNE_BASELINE": "fusion_bytes=0,cycle_ms=20"},
    ),
    DemoRun(
        "nothing_to_gain",
        "a job with so little communication that nothing can be gained",
        flags=("--small", "--batch-size", "128"),
    ),
)


def main() -> None:
    """Run the three jobs and print the summary.

    Raises:
        SystemExit: If a tuning run did not come to its end, or its job failed.
    """
    console = Console()
    shutil.rmtree(RESULTS, ignore_errors=True)
    started = time.monotonic()
    outcomes = []
    for number, run in enumerate(RUNS, start=1):
        console.rule(f"[bold]{number} of {len(RUNS)}: {run.title}")
        console.print(" ".join(f"{name}={value}" for name, value in {**BUDGET, **run.variables}.items()), style="dim")
        outcomes.append(run.run())
    render(outcomes, console, seconds=time.monotonic() - started)
    if unfinished := complaint(outcomes, TUNER_SECONDS):
        raise SystemExit(unfinished)


if __name__ == "__main__":
    main()
