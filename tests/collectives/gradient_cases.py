# SPDX-License-Identifier: Apache-2.0
"""Cases for gradients: of a sum the sum, of an average the average, of rows that were moved the way back."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.collectives.front_end import FrontEnd
from tests.collectives.oracle import Array


def upstream(rank: int, rows: int) -> Array:
    """Return the gradient by a rank's result; it differs between ranks."""
    return np.arange(3.0 * rows).reshape(rows, 3) * (rank + 1)


def total(front: FrontEnd, rows: int) -> Array:
    """Return the sum of all ranks' upstream gradients."""
    everybodys: Array = np.stack([upstream(rank, rows) for rank in range(front.size)])
    return everybodys.sum(0)  # type: ignore[no-any-return]


def rows_from(counts: list[int]) -> Array:
    """Return rows that hold the number, from 1, of the rank that they came from."""
    return np.repeat(np.arange(1.0, len(counts) + 1), counts)[:, None] * np.ones(3)


def check(front: FrontEnd, expected: Array, given: Array, call: Callable[[Any], Any], about: str) -> None:
    """Require the gradient by this rank's tensor, if that by its result is given."""
    tensor = front.tensor(upstream(0, len(expected)) + front.place, "float64")
    front.check(expected, "float64", front.gradient(call, tensor, front.tensor(given, "float64")), about)


def case_gradients_of_sums(front: FrontEnd) -> None:
    """Allreduce, scaled and in groups, and reducescatter."""
    given = upstream(front.place, 4)
    counts = [len(part) for part in np.array_split(np.arange(2 * front.size + 1), front.size)]
    for op, factor in (("Sum", 1.0), ("Average", 1 / front.size)):
        scaled = partial(front.call, "allreduce", op=op, prescale_factor=3.0, postscale_factor=0.5)
        check(front, 1.5 * factor * total(front, 4), given, scaled, f"allreduce, {op}")

        def second(tensor: Any, op: str = op) -> Any:
            return front.call("grouped_allreduce", [tensor, 2 * tensor], op=op)[1]

        check(front, 2 * factor * total(front, 4), given, second, f"grouped allreduce, {op}")
        part, back = np.full((counts[front.place], 3), front.place + 1.0), factor * rows_from(counts)
        of_part = back * front.size if front.has_horovods_gradients else back
        check(front, of_part, part, partial(front.call, "reducescatter", op=op), f"reducescatter, {op}")


def case_gradients_of_moves(front: FrontEnd) -> None:
    """Allgather of ragged rows, alone and in a group, broadcast and alltoall."""
    size, place = front.size, front.place
    share = 1 / size if front.has_horovods_gradients else 1.0
    counts = [rank + 2 if front.has_ragged else 2 for rank in range(size)]
    mine = share * np.split(total(front, sum(counts)), np.cumsum(counts)[:-1])[place]
    check(front, mine, upstream(place, sum(counts)), partial(front.call, "allgather"), "allgather")
    check(
        front,
        2 * mine,
        upstream(place, sum(counts)),
        lambda tensor: front.call("grouped_allgather", [tensor, 2 * tensor])[1],
        "grouped allgather",
    )
    for root, rank in enumerate(front.ranks):
        expected = share * total(front, 4) * (root == place)
        sent = lambda tensor, rank=rank: front.call("broadcast", tensor, rank)  # noqa: E731
        check(front, expected, upstream(place, 4), sent, "broadcast")
    splits = [(place + target) % 3 if front.has_ragged else 2 for target in range(size)]
    given = np.full((sum(splits), 3), place + 1.0)  # as many rows come as go
    check(front, rows_from(splits), given, lambda tensor: front.call("alltoall", tensor, splits)[0], "alltoall")
