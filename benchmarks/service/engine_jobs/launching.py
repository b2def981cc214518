# SPDX-License-Identifier: Apache-2.0
"""Launches the benchmarks' jobs on the real engine; of our variables they have those that are asked for alone."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

LAUNCH_LIMIT_S = 1200.0
OURS = ("RINGTUNE_", "AUTOTUNE", "HOROVOD_")


def launched(ranks: int, program: str, arguments: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return what rank 0 printed last.

    Args:
        ranks: On this host.
        program: A module.
        arguments: Of the program.
        variables: Of its environment.

    Raises:
        RuntimeError: If the job failed; it has what the job said.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    command = [sys.executable, "-m", "ringtune.cli", "run", "-np", str(ranks), "--no-prefix-output"]
    command += [sys.executable, "-m", program, *arguments]
    plain = {"AUTOTUNE_CACHE": "0", "OMP_NUM_THREADS": "1", "RINGTUNE_ALGORITHM_TABLE": "default"}
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
