# SPDX-License-Identifier: Apache-2.0
"""Calls of a process group: each has a number and a text; equal ones share names, which the engine knows again.

Torch's calls have no names. The n-th call of one text meets the n-th on the other ranks. Ranks that call different
things would wait for ever: a rank that has waited for a second tells its open calls in torch's store, and compares
those of the same number.
"""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ringtune.errors import CollectiveTimeout, ConfigError, EngineError, MismatchError, RingtuneError

from .works import EngineWork, FutureKeeper, Pending

NAMES = 8  # names of one text: so many equal calls are in flight; the next one waits for the first of them
_MOST_TOLD = 32  # open calls that are told to other ranks, the oldest ones
_FEW_OPEN = 64  # works that nobody has waited for, before the group looks which of them have ended


class CallText:
    """The names of equal calls, in turn."""

    __slots__ = ("_next", "_works", "names", "text")

    def __init__(self, text: str, era: int) -> None:
        """Make the names.

        Args:
            text: Text of the call, as ranks compare it.
            era: Number of the last call that differed between ranks; its name may be in flight for ever.
        """
        self.text = text
        self.names = [f"{text} #{era}.{slot}" for slot in range(NAMES)]
        self._works: list[EngineWork | None] = [None] * NAMES
        self._next = 0

    @property
    def slot(self) -> int:
        """Position of the next name."""
        return self._next

    @property
    def holder(self) -> EngineWork | None:
        """The call that has the next name and is still under way here; None where the name is free."""
        earlier = self._works[self._next]
        return None if earlier is None or earlier.is_over else earlier

    def note(self, slot: int, work: EngineWork) -> None:
        """Note which call has a name, which is not given out again before the others."""
        self._works[slot] = work
        self._next = (slot + 1) % NAMES


class Calls:
    """The calls of one group, in their order. Thread-safe."""

    def __init__(self, store: Any, rank: int, size: int, futures: FutureKeeper) -> None:
        """Begin without a call.

        Args:
            store: Torch's store for this group.
            rank: This rank.
            size: Number of ranks.
            futures: Keeper of the futures that nobody drives.
        """
        self.futures = futures
        self._store = store
        self._rank = rank
        self._size = size
        self._lock = threading.Lock()  # guards all below, and the order in which the engine gets the calls
        self._texts: dict[Any, CallText] = {}
        self._number = 0
        self._era = 0
        self._differed: dict[str, str] = {}  # this rank's calls that differed from another rank's, by number
        self._suspicions: set[tuple[str, str, int, str]] = set()  # differences that were seen once
        self._open: dict[int, EngineWork] = {}
        self._is_closed = False

    @property
    def number(self) -> int:
        """Number of calls so far."""
        return self._number

    def start(
        self,
        key: tuple[Any, ...],
        submit: Callable[[str], Sequence[Pending]],
        outputs: list[torch.Tensor],
        limit_s: float | None = None,
    ) -> EngineWork:
        """Start a call.

        Args:
            key: Kind of the call, and all that must be equal on every rank; becomes its text.
            submit: Gives the call's operations to the engine, under a name of this call.
            outputs: Tensors that the work's future holds.
            limit_s: Time limit of this call, seconds; None for the group's.
        """
        while True:
            with self._lock:
                text = self._text(key)
                holder = text.holder
                if holder is None:
                    work = self._begin(text, submit, outputs, limit_s)
                    break
            holder.finish()  # without the lock: a callback of its future may start a call, too
        if len(self._open) > _FEW_OPEN:
            self._tidy()
        return work

    def _text(self, key: tuple[Any, ...]) -> CallText:
        if self._is_closed:
            raise ConfigError(f"{_text_of(key)} is not possible: the process group was destroyed or aborted")
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = CallText(_text_of(key), self._era)
        return text

    def _begin(
        self,
        text: CallText,
        submit: Callable[[str], Sequence[Pending]],
        outputs: list[torch.Tensor],
        limit_s: float | None,
    ) -> EngineWork:
        """Give a call to the engine; the lock is held."""
        slot = text.slot
        pending = submit(text.names[slot])  # a call that is refused has no number
        self._number += 1
        work = EngineWork(self, text.text, self._number, pending, outputs, limit_s)
        text.note(slot, work)
        self._open[self._number] = work
        return work

    def forget(self, work: EngineWork) -> None:
        """Take note that a call has ended."""
        self._open.pop(work.number, None)

    def explained(self, work: EngineWork, error: RingtuneError) -> RingtuneError:
        """Return the error with which a call has ended, in terms of the group."""
        if self._is_closed:
            return EngineError(f"{work.call} was under way when its process group was destroyed or aborted")
        if isinstance(error, CollectiveTimeout):
            return CollectiveTimeout(f"{work.call} has reached the timeout of its process group: {error}")
        return error

    def check(self) -> None:
        """Compare this rank's open calls with those of the ranks that wait, too.

        Raises:
            MismatchError: If ranks have called different things; names both calls.
        """
        if self._size == 1 or self._is_closed:
            return
        own = {str(number): work.call for number, work in list(self._open.items())[:_MOST_TOLD]}
        text = json.dumps({"open": own, "differed": self._differed})
        self._store.set(f"ringtune/calls/{self._rank}", text)
        for rank in range(self._size):
            key = f"ringtune/calls/{rank}"
            if rank != self._rank and self._store.check([key]):
                told = json.loads(self._store.get(key))
                self._compare(own, rank, told["open"], {**told["open"], **told["differed"]})

    def close(self) -> None:
        """Refuse every later call."""
        self._is_closed = True

    def _compare(self, own: dict[str, str], rank: int, waiting: dict[str, str], told: dict[str, str]) -> None:
        """Raise for a call that differs from the other rank's of its number, once that was seen twice.

        Threads of a program may make its calls in another order here than there. That is no difference, as long as both
        ranks make all of them: the other one may not have come to it.
        """
        for number, text in own.items():
            other = told.get(number)
            if other is None or other == text or other in own.values() or text in waiting.values():
                continue
            suspicion = (number, text, rank, other)
            if suspicion not in self._suspicions:
                self._suspicions.add(suspicion)
                continue
            self._era = int(number)
            self._differed[number] = text  # the other rank may have seen it once only
            self._texts.clear()
            raise MismatchError(
                f"call {number} of this process group is {text} on rank {self._rank} but {other} on rank {rank}; "
                "all ranks of a group must make the same calls in the same order"
            )

    def _tidy(self) -> None:
        for work in list(self._open.values()):
            work.try_to_end()


def _text_of(key: tuple[Any, ...]) -> str:
    return " ".join(str(part) for part in key)
