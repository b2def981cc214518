# SPDX-License-Identifier: Apache-2.0
"""A job under torchrun: the first attempt joins and then fails on one rank; the restarted one adds up.

Arguments: a folder, in which the first attempt leaves a sign.
"""

import os
import sys
from pathlib import Path

from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, join, say

restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
world = join()
total = allreduce(world, "sum", [1.0])[0]
if restart == "0":
    (Path(sys.argv[1]) / f"failed.{world.rank}").touch()
    sys.exit(world.rank)
say(f"restart {restart}: sum {total}")
SESSION.shutdown()
