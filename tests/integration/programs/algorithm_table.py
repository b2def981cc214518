# SPDX-License-Identifier: Apache-2.0
"""Rank 0 says which algorithms reduced its messages, in how many chunks, and to which bits.

`lost` as argument: rank 1 dies where the others begin to measure.
"""

import hashlib
import json
import os
import signal
import sys
import time
from array import array

from ringtune.errors import RingtuneError
from ringtune.session.session import SESSION
from ringtune.world.algorithm_tables.choice import TableChoice
from ringtune.world.world import World
from tests.integration.plain_rank import join, say, submit, wait

COUNTS = (100, 10_000, 300_000)  # 0.8 KB, 80 KB, 2.4 MB


def die(_choice: TableChoice) -> None:
    """Take the place of `TableChoice.measure`."""
    os.kill(os.getpid(), signal.SIGKILL)


def join_timed() -> tuple[World, float]:
    """Join the world and return how long it took, or say it."""
    begin_s = time.monotonic()
    try:
        return join(), time.monotonic() - begin_s
    except RingtuneError as error:
        say(f"{type(error).__name__} after {time.monotonic() - begin_s:.1f} s")
        raise


def reduce_all(world: World) -> str:
    """Reduce a message of each size and return a digest of the sums."""
    bits = hashlib.sha256()
    for count in COUNTS:
        values = array("d", (1 / (7 * i + 13 * world.rank + 3) for i in range(count)))
        wait(world, submit(world, f"of {count}", values))
        bits.update(values.tobytes())
    return bits.hexdigest()


def main() -> None:
    """Join, reduce, and tell."""
    if "lost" in sys.argv and os.environ["RINGTUNE_RANK"] == "1":
        TableChoice.measure = die  # type: ignore[method-assign, assignment]
    world, init_s = join_timed()
    bits = reduce_all(world)
    counters = world.engine.counters()
    used = {name.removeprefix("algorithm."): uses for name, uses in counters.items() if "algorithm." in name and uses}
    if world.rank == 0:
        say(json.dumps({"init_s": init_s, "used": used, "chunks": counters["chunks"], "bits": bits}))
    SESSION.shutdown()


if __name__ == "__main__":
    main()
