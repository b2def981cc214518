# SPDX-License-Identifier: Apache-2.0
"""Joins, says so in a file per rank, starts a process of its own, and waits to be ended."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.integration.plain_rank import join

world = join()
subprocess.Popen(["sleep", "600"])
Path(sys.argv[1], f"ready.{world.rank}").write_text("ready\n", encoding="utf-8")
signal.pause()
