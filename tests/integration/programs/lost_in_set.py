# SPDX-License-Identifier: Apache-2.0
"""Rank 1 of three kills itself while rank 0 waits for it in a process set, and rank 2 in the global world.

Arguments: a folder, in which the others say that they have joined.
"""

import os
import signal
import sys
import time
from pathlib import Path

from ringtune.errors import PeerLostError
from ringtune.session.process_sets import ProcessSet
from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, say

pair = ProcessSet([0, 1])
SESSION.init([pair])
world = SESSION.require()
folder = Path(sys.argv[1])
if world.rank == 1:
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
(folder / f"joined.{world.rank}").touch()
try:
    allreduce(pair.world if world.rank == 0 else world, "never", [1.0])
except PeerLostError:
    say(f"rank {world.rank} lost the {'set' if world.rank == 0 else 'world'}")
SESSION.shutdown()
