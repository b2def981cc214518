# SPDX-License-Identifier: Apache-2.0
"""Calls of a process group, in their order; calls that differ between ranks are reported.

Ranks that call different things would wait for ever: a rank that has waited for a while posts its open calls in torch's
store, and compares those of the same number.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ringtune import errors
from ringtune.errors import CollectiveTimeout, ConfigError, EngineError, MismatchError, RingtuneError

from .call_book import CallBook
from .keys import Key, text_of
from .works import EngineWork, FutureKeeper, Pending, overdue

_MOST_TOLD = 32  # open calls that are told to other ranks, the oldest ones
_FEW_OPEN = 64  # works that nobody has waited for, before the group looks which of them have ended


class Calls:
    """The calls of one group. Thread-safe."""

    def __init__(self, store: Any, rank: int, size: int, futures: FutureKeeper, book: CallBook) -> None:
        """Begin without a call.

        Args:
            store: Torch's store for this group.
            rank: This rank.
            size: Number of ranks.
            futures: Keeper of the futures that no caller drives.
            book: Numbers and names; the compiled form's calls may be in it, too.
        """
        self.futures = futures
        self._store = store
        self._rank = rank
        self._size = size
        self._book = book
        self._texts: dict[Key, str] = {}
        self._differed: dict[str, str] = {}  # this rank's calls that differed from another rank's, by number
        self._suspicions: set[tuple[str, str, int, str]] = set()  # differences that were seen once
        self._open: dict[int, EngineWork] = {}

    @property
    def number(self) -> int:
        """Number of calls so far."""
        with self._book:
            return self._book.number

    def start(
        self,
        key: Key,
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
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = text_of(key)
        while True:
            with self._book:
                if self._book.is_closed:
                    raise ConfigError(f"{text} is not possible: the process group was destroyed or aborted")
                holder = self._book.holder(text)
                if holder == 0:
                    pending = submit(self._book.next_name(text))  # a call that is refused has no number
                    work = EngineWork(self, text, self._book.begin(text), pending, outputs, limit_s)
                    self._open[work.number] = work
                    break
            self.finish(holder)  # outside of the book: a callback of its future may start a call, too
        if len(self._open) > _FEW_OPEN:
            for open_work in list(self._open.values()):
                open_work.try_to_end()
        return work

    def finish(self, number: int) -> None:
        """Wait for a call."""
        work = self._open.get(number)
        if work is None:
            self._book.finish(number)
        else:
            work.finish()

    def forget(self, work: EngineWork) -> None:
        """Take note that a call has ended."""
        self._open.pop(work.number, None)
        with self._book:
            self._book.end(work.number)

    def explained(self, work: EngineWork, error: RingtuneError) -> RingtuneError:
        """Return the error with which a call has ended, in terms of the group."""
        return self._explained(work.call, error)

    def _explained(self, call: str, error: RingtuneError) -> RingtuneError:
        if self._book.is_closed:
            return EngineError(f"{call} was under way when its process group was destroyed or aborted")
        if isinstance(error, CollectiveTimeout):
            return CollectiveTimeout(f"{call} has reached the timeout of its process group: {error}")
        return error

    def explained_fault(self, call: str, kind: str, text: str) -> tuple[str, str]:
        """Return class and text of the error with which a call of the compiled form has ended."""
        error = self._explained(call, getattr(errors, kind)(text))
        return type(error).__name__, str(error)

    def raise_fault(self, kind: str, text: str) -> None:
        """Raise an error of the compiled form."""
        raise getattr(errors, kind)(text)

    def raise_overdue(self, call: str, number: int, limit_s: float) -> None:
        """Raise that a call of the compiled form did not end in time."""
        raise overdue(call, number, limit_s)

    def difference(self) -> tuple[str, str] | None:
        """Return class and text of the error that `check` raises; None where there is none."""
        try:
            self.check()
        except RingtuneError as error:
            return type(error).__name__, str(error)
        return None

    def check(self) -> None:
        """Compare this rank's open calls with those of the ranks that wait, too.

        Raises:
            MismatchError: If ranks have called different things; names both calls.
        """
        if self._size == 1 or self._book.is_closed:
            return
        with self._book:
            own = {str(number): call for number, call in self._book.open(_MOST_TOLD).items()}
        text = json.dumps({"open": own, "differed": self._differed})
        self._store.set(f"ringtune/calls/{self._rank}", text)
        for rank in range(self._size):
            key = f"ringtune/calls/{rank}"
            if rank != self._rank and self._store.check([key]):
                theirs = json.loads(self._store.get(key))
                self._compare(own, rank, theirs["open"], theirs["differed"])

    def close(self) -> None:
        """Refuse every later call."""
        with self._book:
            self._book.close()

    def _compare(self, own: dict[str, str], rank: int, waiting: dict[str, str], differed: dict[str, str]) -> None:
        """Raise for a call that differs from the other rank's of its number, once that was seen twice, here or there.

        Threads of a program may make its calls in another order here than there. That is no difference, as long as both
        ranks make all of them: the other one may not have come to it. A rank that has raised makes its call no more,
        even if a later one of its calls is the one that this rank waits for.
        """
        for number, text in own.items():
            other = {**waiting, **differed}.get(number)
            if other is None or other == text:
                continue
            if number not in differed and not self._is_certain((number, text, rank, other), own, waiting):
                continue
            self._differed[number] = text  # the other rank may have seen it once only
            with self._book:
                self._book.differ(int(number))
            raise MismatchError(
                f"call {number} of this process group is {text} on rank {self._rank} but {other} on rank {rank}; "
                "all ranks of a group must make the same calls in the same order"
            )

    def _is_certain(self, suspicion: tuple[str, str, int, str], own: dict[str, str], waiting: dict[str, str]) -> bool:
        """Return whether a difference is no other order of calls, and was seen before."""
        _, text, _, other = suspicion
        if other in own.values() or text in waiting.values():
            return False
        was_seen = suspicion in self._suspicions
        self._suspicions.add(suspicion)
        return was_seen
