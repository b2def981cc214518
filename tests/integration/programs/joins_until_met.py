# SPDX-License-Identifier: Apache-2.0
"""Asks for a meeting until one succeeds, and says which errors came before."""

from ringtune.errors import PeerLostError
from tests.integration.plain_rank import allreduce, join, say


def main() -> None:
    """Join, and ask again after a loss."""
    while True:
        try:
            world = join()
        except PeerLostError as error:
            say(f"lost: {error}")
            continue
        [total] = allreduce(world, "sum", [1.0])
        say(f"rank {world.rank} of {world.size}: {total:.0f}")
        return


main()
