# SPDX-License-Identifier: Apache-2.0
"""Launcher of the benchmarks' jobs on the real engine; of ringtune's variables they inherit none."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

LAUNCH_LIMIT_S = 1200.0
OURS = ("RINGTUNE_", "AUTOTUNE", "HOROVOD_")


def launched(ranks: int, program: str, arguments: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """Launch a job and return the JSON object that rank 0 printed last.

    Args:
        ranks: Number of ranks, all on this host.
        program: Module to run.
        arguments: The program's arguments.
        variables: Additions to its environment.

    Raises:
        RuntimeError: If the job failed; the message has the end of its output.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    command = [sys.executable, "-m", "ringtune.cli", "run", "-np", str(ranks), "--no-prefix-output"]
    command += [sys.executable, "-m", program, *arguments]
    plain = {
        "AUTOTUNE_CACHE": "0",
        "AUTOTUNE_LOCK": "0",
        "OMP_NUM_THREADS": "1",
        "RINGTUNE_ALGORITHM_TABLE": "default",
    }
    finished = subprocess.run(
        command,
        env={**environ, **plain, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=LAUNCH_LIMIT_S,
    )
    found = [line for line in finished.stdout.splitlines() if line.startswith("{")]
    if finished.returncode != 0 or not found:
        raise RuntimeError(f"the job ended with {finished.returncode}: {finished.stderr[-2000:]}")
    value: dict[str, Any] = json.loads(found[-1])
    return value
