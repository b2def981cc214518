# SPDX-License-Identifier: Apache-2.0
"""A rank that has worked, idles until a file is there, and prints as JSON when and how it then learned of a loss.

Argument: a folder, for a file `ready.RANK` once this rank idles, and with the file `go`, which ends the idling.
"""

import json
import sys
import time
from pathlib import Path

from ringtune.errors import EngineError
from tests.integration.jobs import wait_for_line
from tests.integration.plain_rank import allreduce, join_together, say


def main() -> None:
    """Work, idle, work until the end of the world."""
    folder = Path(sys.argv[1])
    world = join_together(folder)
    allreduce(world, "x", [1.0])
    (folder / f"ready.{world.rank}").write_text("idle\n", encoding="ascii")
    wait_for_line(folder / "go")
    submitted_s = time.monotonic()
    try:
        allreduce(world, "x", [1.0])
    except EngineError as error:
        now_s = time.monotonic()
        line = {"rank": world.rank, "error": type(error).__name__, "text": str(error), "monotonic_s": now_s}
        say(json.dumps({**line, "submitted_s": submitted_s}))
    world.shutdown()
    raise SystemExit(3)


main()
