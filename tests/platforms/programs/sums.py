# SPDX-License-Identifier: Apache-2.0
"""Joins twice, adds the ranks' numbers, and says where each rank is. `fail N` has rank N exit with code 7 at work.

`beside NAME OTHER` goes on once the job that is called OTHER has come as far.
"""

import os
import socket
import sys
from pathlib import Path

import numpy as np

import ringtune.arrays as hvd
from tests.waiting import wait_until


def add_up() -> str:
    """Return the place, and the sum of all ranks' numbers from 1."""
    (total,) = hvd.allreduce(np.full(1, hvd.rank() + 1.0), name="numbers", op=hvd.Sum)
    local = f"local {hvd.local_rank()} of {hvd.local_size()} on {socket.gethostname()}"
    restart = os.environ.get("SLURM_RESTART_COUNT", "0")
    return f"rank {hvd.rank()} of {hvd.size()}, {local}: {total:.0f}, restart {restart}"


hvd.init()
first = add_up()
if sys.argv[1:2] == ["beside"] and hvd.rank() == 0:
    Path(sys.argv[2]).touch()
    wait_until(Path(sys.argv[3]).exists)
hvd.shutdown()
hvd.init()
assert first == add_up()
if sys.argv[1:2] == ["fail"]:
    if hvd.rank() == int(sys.argv[2]):
        os._exit(7)
    while True:
        add_up()
sys.stdout.write(f"{first}\n")
hvd.shutdown()
