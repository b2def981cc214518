# SPDX-License-Identifier: Apache-2.0
"""A pooled process: takes part in one meeting after the other, each with a place of its own.

Arguments: a JSON array of objects of variables. With `MASTER_ADDR` among them, torch's process group is the meeting.
"""

import json
import os
import sys
from datetime import timedelta

from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, join, say


def main() -> None:
    """Meet, reduce and leave, once for each place."""
    for variables in json.loads(sys.argv[1]):
        os.environ.update(variables)
        is_torch = "MASTER_ADDR" in variables
        if is_torch:
            from torch import distributed

            distributed.init_process_group("gloo", timeout=timedelta(seconds=60))
        world = join()
        (total,) = allreduce(world, "x", [1.0])
        say(f"{world.rank} of {world.size} counted {total:.0f}")
        SESSION.shutdown()
        if is_torch:
            distributed.destroy_process_group()


main()
