# SPDX-License-Identifier: Apache-2.0
"""Run the examples as a user would and keep what they print. Knows the command line, nothing of the package."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from job import REPOSITORY, ExampleJob

RINGTUNE = str(Path(sys.executable).with_name("ringtune"))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
TIMEOUT_S = 540.0


def run_ringtune(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line tool."""
    return run([RINGTUNE, *arguments])


def run(command: Sequence[str], variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in an environment without settings of ours besides the given ones; never raises on its failure.

    Nothing is measured at the start and kept in the user's cache folder.
    """
    environment = ExampleJob("", variables={"RINGTUNE_ALGORITHM_TABLE": "default", **(variables or {})}).environment()
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


BUDGET = {
    "AUTOTUNE": "1",
    "AUTOTUNE_MAX_SAMPLES": "3",
    "AUTOTUNE_WARMUP_STEPS": "10",
    "AUTOTUNE_STEPS_PER_SAMPLE": "5",
}
