# SPDX-License-Identifier: Apache-2.0
"""Control messages between the ranks beside training: texts at the start, then rounds of numbers, and votes.

They use a Gloo group of their own, in CPU memory and unknown to `torch.distributed`. The model's group and the user's
calls are not in its way, and a job whose only backend is NCCL, which sends no CPU memory, has such a group too. A
*round* is an element-wise maximum over all ranks that goes on while they train. Once a call fails the group is lost for
good: a collective that has begun on it cannot be cancelled.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import distributed_c10d


class ControlLost(Exception):  # noqa: N818 - an event: a rank is gone or did not come
    """The ranks can no longer agree; the message has the reason."""


class ControlGroup:
    """The ranks of a process group, each with the same calls in the same order."""

    def __init__(self, group: dist.ProcessGroup, timeout_s: float) -> None:
        """Meet the other ranks, through the group's store.

        Args:
            group: Process group of the ranks that meet; it carries none of the messages.
            timeout_s: Longest wait for one rank, seconds.

        Raises:
            ControlLost: If they do not meet.
        """
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        limit = timedelta(seconds=timeout_s)
        with _failures_translated():
            shared = distributed_c10d._world.pg_map[group][1]  # noqa: SLF001  (the group's store has no public name)
            store = _own_part(shared, self.size)
            self._group: Any = dist.ProcessGroupGloo(store, self.rank, self.size, limit)  # typed without its methods
        self._round: tuple[torch.Tensor, dist.Work] | None = None

    def set_timeout(self, timeout_s: float) -> None:
        """Wait for one rank for another time from now on, seconds."""
        self._group._set_default_timeout(timedelta(seconds=timeout_s))  # noqa: SLF001

    def gather(self, text: str) -> list[str]:
        """Return every rank's text, by rank. Blocks.

        Raises:
            ControlLost: If a rank is gone or does not come in time.
        """
        mine = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
        lengths = [int(length) for length in self._gathered(torch.tensor([len(mine)]))]
        texts = self._gathered(torch.nn.functional.pad(mine, (0, max(lengths) - len(mine))))
        return [bytes(padded[:length].tolist()).decode() for padded, length in zip(texts, lengths, strict=True)]

    def post(self, words: Sequence[int]) -> None:
        """Begin a round with this rank's numbers and return at once. The round before must have been taken.

        Raises:
            ControlLost: If it cannot begin.
        """
        tensor = torch.tensor(list(words), dtype=torch.int64)
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp(dist.ReduceOp.MAX)
        with _failures_translated():
            self._round = tensor, self._group.allreduce([tensor], options)

    def take(self) -> list[int] | None:
        """Wait for the round and return the largest of each number, None where none was begun.

        Raises:
            ControlLost: If a rank is gone or did not begin it in time.
        """
        if self._round is None:
            return None
        (tensor, work), self._round = self._round, None
        with _failures_translated():
            work.wait()
        return [int(word) for word in tensor.tolist()]

    def agree(self, words: Sequence[int]) -> list[int]:
        """Return the largest of each number over all ranks. Blocks; no round may be under way.

        Raises:
            ControlLost: If a rank is gone or does not come in time.
        """
        self.post(words)
        merged = self.take()
        assert merged is not None
        return merged

    def _gathered(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        with _failures_translated():
            self._group.allgather([found], [tensor]).wait()
        return found


def _own_part(store: Any, size: int) -> Any:
    """Return a part of a group's store that no other meeting uses or has used.

    All ranks pass here before one of them comes back, for they meet in between.
    """
    visits = store.add("ringtune.autotune", 1)
    return distributed_c10d.PrefixStore(f"ringtune.autotune/{(visits - 1) // size}", store)


@contextmanager
def _failures_translated() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:  # torch raises these for a lost peer, a timeout, a group that is gone
        raise ControlLost(str(error).splitlines()[0]) from error
