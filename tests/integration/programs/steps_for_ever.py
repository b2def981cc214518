# SPDX-License-Identifier: Apache-2.0
"""Ranks that make steps until they are ended, and tune themselves where AUTOTUNE says so.

Argument: a folder for a file `ready.RANK` with the process id, after the first step.
"""

import os
import sys
from pathlib import Path

import numpy as np

from ringtune import arrays

arrays.init()
values = np.ones(1000, np.float32)
step = 0
while True:
    arrays.allreduce(values, name="gradient")
    arrays.mark_step()
    step += 1
    if step == 1:
        (Path(sys.argv[1]) / f"ready.{arrays.rank()}").write_text(f"{os.getpid()}\n", encoding="ascii")
