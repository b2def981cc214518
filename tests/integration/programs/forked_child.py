# SPDX-License-Identifier: Apache-2.0
"""Calls the engine in a forked child, which must be an error there; the parent goes on."""

import os

from ringtune.errors import ForkedProcessError
from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, join, say


def child() -> int:
    """Return 0 if every call of the engine is refused."""
    world = SESSION.require()
    calls = (
        lambda: allreduce(world, "x", [1.0]),
        world.engine.barrier,
        world.engine.mark_step,
        world.engine.counters,
        SESSION.init,
    )
    for call in calls:
        try:
            call()
        except ForkedProcessError:
            continue
        return 1
    SESSION.shutdown()
    return 0


world = join()
allreduce(world, "before", [1.0])
pid = os.fork()
if pid == 0:
    os._exit(child())
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0
assert [float(world.size)] == allreduce(world, "after", [1.0])
say("the parent goes on")
SESSION.shutdown()
