# SPDX-License-Identifier: Apache-2.0
"""A worker of an elastic job without torch: makes steps until told to stop, and meets anew when the workers change.

Argument: a folder. The worker writes its state into `state.WORKER` there after each step: pid, rank, size, step. Files
in the folder are orders: `stop` ends all workers together, `exit0.WORKER` ends one with code 0 and without a word,
`raise.WORKER` has one fail by an exception, `stuck.WORKER` has one sleep for ever.
"""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ringtune.errors import CollectiveTimeout, DismissedError, PeerLostError
from ringtune.session.session import SESSION
from ringtune.world.world import World
from tests.integration.plain_rank import allreduce, say

STEP_S = 0.01
WORKER = os.environ["RINGTUNE_WORKER_ID"]


@dataclass
class Progress:
    """State that outlives a world."""

    step: int = 0


def write_state(folder: Path, world: World, step: int) -> None:
    """Leave this worker's state in a file, whole or not at all."""
    unfinished = folder / f"unfinished.{WORKER}"
    unfinished.write_text(f"{os.getpid()} {world.rank} {world.size} {step}\n", encoding="utf-8")
    unfinished.replace(folder / f"state.{WORKER}")


def obey(folder: Path) -> None:
    """Carry out the orders that the files give this worker alone."""
    if (folder / f"exit0.{WORKER}").exists():
        os._exit(0)
    if (folder / f"raise.{WORKER}").exists():
        raise RuntimeError("told to fail")
    while (folder / f"stuck.{WORKER}").exists():
        time.sleep(STEP_S)


def train(folder: Path, world: World, progress: Progress) -> bool:
    """Make steps from where rank 0 is; return whether the work is done, False where the workers are about to change."""
    beginning = float(progress.step) if world.rank == 0 else 0.0
    progress.step = int(allreduce(world, "state", [beginning])[0])
    say(f"rank {world.rank} of {world.size} goes on at step {progress.step}")
    while True:
        obey(folder)
        assert SESSION.rendezvous is not None
        flags = [float((folder / "stop").exists()), float(SESSION.rendezvous.has_update()), 1.0]
        stops, updates, size = allreduce(world, "step", flags)
        assert world.size == size
        progress.step += 1
        write_state(folder, world, progress.step)
        if stops or updates:
            return bool(stops)
        time.sleep(STEP_S)


def main(folder: Path) -> None:
    """Train in one world after the other."""
    progress, is_done = Progress(), False
    while not is_done:
        try:
            SESSION.init()
            is_done = train(folder, SESSION.require(), progress)
        except (PeerLostError, CollectiveTimeout) as error:
            say(f"lost: {error}")
        except DismissedError as error:
            say(f"dismissed: {error}")
            return
        SESSION.shutdown()
    say(f"done after {progress.step} steps")


main(Path(sys.argv[1]))
