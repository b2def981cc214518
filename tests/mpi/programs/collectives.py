# SPDX-License-Identifier: Apache-2.0
"""Checks the front end of numpy's arrays over MPI, also with more than one message of its transport. No torch."""

import numpy as np

import ringtune.arrays as hvd
from ringtune.session.session import SESSION
from tests.collectives.arrays_front_end import ArraysFrontEnd
from tests.collectives.cases import bound
from tests.integration.plain_rank import say

LARGE = 5_000_000
"""Elements of four bytes that are more than one message of 16 MiB."""


def pattern(rank: int) -> hvd.Array:
    """Return a rank's values, which differ from place to place and are added exactly."""
    return ((np.arange(LARGE) + 7 * rank) % 61).astype(np.float32)


def check_large_messages() -> None:
    """Sums, broadcasts and gathered rows."""
    everybodys = [pattern(rank) for rank in range(hvd.size())]
    mine = everybodys[hvd.rank()]
    assert np.array_equal(np.sum(everybodys, axis=0), hvd.allreduce(mine, op=hvd.Sum))
    assert np.array_equal(everybodys[-1], hvd.broadcast(mine, hvd.size() - 1))
    assert np.array_equal(np.concatenate(everybodys), hvd.allgather(mine))


hvd.init()
for case in bound(ArraysFrontEnd(is_brief=True)).values():
    case()
check_large_messages()
hvd.barrier()
say(f"rank {hvd.rank()}: all as it must be, by {SESSION.require().carrier}")
