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
_LARGEST_TEXT = 4096  # bytes; open calls that are told to other ranks
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

    def claim(self) -> int:
        """Return the position of the next name, once the call that had it before has ended here."""
        slot = self._next
        earlier = self._works[slot]
        if earlier is not None and not earlier.is_completed():
            earlier.wait()
        return slot

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
        with self._lock:
            if self._is_closed:
                raise ConfigError(f"{_text_of(key)} is not possible: the process group was destroyed or aborted")
            text = self._texts.get(key)
            if text is None:
                text = self._texts[key] = CallText(_text_of(key), self._era)
            slot = text.claim()
            pending = submit(text.names[slot])  # a call that is refused has no number
            self._number += 1
            work = EngineWork(self, text.text, self._number, pending, outputs, limit_s)
            text.note(slot, work)
            self._open[self._number] = work
        if len(self._open) > _FEW_OPEN:
            self._tidy()
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
        own = {str(number): work.call for number, work in list(self._open.items())[:32]}
        self._store.set(f"ringtune/calls/{self._rank}", json.dumps(own)[:_LARGEST_TEXT])
        for rank in range(self._size):
            key = f"ringtune/calls/{rank}"
            if rank != self._rank and self._store.check([key]):
                self._compare(own, rank, _read(self._store.get(key)))

    def close(self) -> None:
        """Refuse every later call."""
        self._is_closed = True

    def _compare(self, own: dict[str, str], rank: int, told: dict[str, str]) -> None:
        for number, text in own.items():
            other = told.get(number)
            if other is not None and other != text:
                self._era = int(number)
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


def _read(text: bytes) -> dict[str, str]:
    try:
        told = json.loads(text)
    except ValueError:  # cut off: too many calls are open there
        return {}
    return told if isinstance(told, dict) else {}
