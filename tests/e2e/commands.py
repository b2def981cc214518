# SPDX-License-Identifier: Apache-2.0
"""Run the examples as a user would and keep their output. Knows the command line, not the package."""

import json
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from job import REPOSITORY, ExampleJob
from tests.integration.fork_server import MARKER
from tests.integration.forked_ranks import Forked
from tests.integration.forked_services import ringtune_words
from tests.integration.jobs import Ranks, run_job

RINGTUNE = str(Path(sys.executable).with_name("ringtune"))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
TIMEOUT_S = 540.0
OWN = {"RINGTUNE_ALGORITHM_TABLE": "default", "AUTOTUNE_LOCK": "0"}


def run_ringtune(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line tool, as a fork of a process that has imported it; `RINGTUNE` is the installed one."""
    return run(ringtune_words(*arguments), {MARKER: uuid.uuid4().hex})


def run(command: Sequence[str], variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in an environment without settings of ours besides the given ones; never raises on its failure.

    No measurement is made at the start and kept in the user's cache folder, and other tests' jobs are not waited for.
    """
    environment = ExampleJob("", variables={**OWN, **(variables or {})}).environment()
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


BUDGET = {
    "AUTOTUNE": "1",
    "AUTOTUNE_MAX_SAMPLES": "3",
    "AUTOTUNE_WARMUP_STEPS": "10",
    "AUTOTUNE_STEPS_PER_SAMPLE": "5",
}


def run_forked(job: ExampleJob, report: Path) -> dict[str, Any]:
    """Run an example on ranks that are forked, not launched, and return the report that its rank 0 wrote."""
    program = Forked(REPOSITORY / job.script, (*job.arguments, "--report", str(report)))
    finished = run_job(Ranks(job.ranks, program), job.variables, deadline_s=TIMEOUT_S)
    assert 0 == finished.code, finished.text
    return dict(json.loads(report.read_text(encoding="utf-8")))
