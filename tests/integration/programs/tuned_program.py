# SPDX-License-Identifier: Apache-2.0
"""A program whose steps depend on Horovod's variables, and which misbehaves as its arguments say.

Each launch appends its fusion threshold to the file of the first argument. The steps are twice as fast with a threshold
above 1 MiB than without one. `fails-below=N`, `hangs-below=N`: thresholds under N bytes, "unset" being none, do that;
`hangs-in=N`: the Nth launch does.
"""

import os
import subprocess
import sys
from pathlib import Path


def option(name: str, default: int) -> int:
    """Return the number that an argument gives."""
    given = [argument.partition("=")[2] for argument in sys.argv[2:] if argument.startswith(f"{name}=")]
    return int(given[0]) if given else default


threshold = os.environ.get("HOROVOD_FUSION_THRESHOLD", "unset")
record = Path(sys.argv[1])
with record.open("a", encoding="utf-8") as file:
    file.write(f"{threshold}\n")
launches = len(record.read_text(encoding="utf-8").splitlines())
size = 0 if threshold == "unset" else int(threshold)
if size and size < option("fails-below", 0):
    sys.exit("this threshold is too small for me")
if (size and size < option("hangs-below", 0)) or launches == option("hangs-in", 0):
    # A child in a session of its own, which no signal to a process group reaches.
    subprocess.run(["sleep", "600"], start_new_session=True, check=False)
step_ms = 10.0 if size > 2**20 else 20.0
for number in range(option("steps", 12)):
    sys.stdout.write(f"noise {number}\nringtune: step_ms={step_ms * (1 + 0.001 * (number % 3)):.5f}\n")
    sys.stdout.flush()
