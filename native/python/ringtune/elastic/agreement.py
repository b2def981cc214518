# SPDX-License-Identifier: Apache-2.0
"""The agreement of all ranks at a commit: one small sum, so that all know the same and do the same."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ringtune.arrays import Max, Sum, allreduce, rank, size

NEWEST_NAME = "elastic.newest (a new worker calls nothing before its elastic function)"
"""Name of the first operation of each world: the errors of ranks that wait for each other there show it."""


@dataclass(frozen=True)
class RankWords:
    """The words of all ranks.

    Attributes:
        has_update: Whether a rank knows that workers come or leave.
        words: Words of each rank, in rank order.
    """

    has_update: bool
    words: tuple[tuple[int, ...], ...]


def agree(words: Sequence[int], *, has_update: bool) -> RankWords:
    """Send this rank's words and return those of all; every rank calls it at the same point of the training.

    Args:
        words: Integers; as many on every rank.
        has_update: Whether this rank knows that workers come or leave.

    Raises:
        MismatchError: If ranks have different numbers of words.
        EngineError: If the world is lost.
    """
    own, count = rank(), len(words)
    table = np.zeros(1 + size() * count, np.int64)
    table[0] = int(has_update)
    table[1 + own * count : 1 + (own + 1) * count] = words
    total = allreduce(table, op=Sum, name="elastic.agreement")
    rows = total[1:].reshape(size(), count).tolist()
    return RankWords(bool(total[0] > 0), tuple(tuple(row) for row in rows))


def newest(version: int) -> tuple[int, int]:
    """Return the highest version that a rank has, and the first rank that has it; called on every rank.

    Raises:
        EngineError: If the world is lost.
    """
    ranks = size()
    best = int(allreduce(np.array(version * ranks + ranks - 1 - rank(), np.int64), op=Max, name=NEWEST_NAME))
    return best // ranks, ranks - 1 - best % ranks
