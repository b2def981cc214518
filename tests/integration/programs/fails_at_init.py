# SPDX-License-Identifier: Apache-2.0
"""Sets one variable on one rank, as a rank's own environment would, then joins; prints the error that it gets.

Arguments: the rank, the variable, the value; a file, if a line is to be written into it right before.
"""

import os
import sys
import time
from pathlib import Path

from ringtune.errors import RingtuneError
from ringtune.session.session import SESSION
from tests.integration.plain_rank import say

rank, variable, value, *files = sys.argv[1:]
if os.environ["RINGTUNE_RANK"] == rank:
    os.environ[variable] = value
own_rank = os.environ["RINGTUNE_RANK"]
for file in files:
    Path(file).write_text("joins\n", encoding="ascii")
start_s = time.monotonic()
try:
    SESSION.init()
except RingtuneError as error:
    seconds = time.monotonic() - start_s
    say(f"rank {own_rank} got {type(error).__name__} after {seconds:.2f} s: {error}")
else:
    say(f"rank {own_rank} joined")
