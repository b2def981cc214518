# SPDX-License-Identifier: Apache-2.0
"""Numbers, names and comparison of a group's calls."""

from typing import Any

import pytest
import torch
from torch.distributed import HashStore  # type: ignore[attr-defined]

from ringtune.errors import ConfigError, MismatchError
from ringtune.torch_backend.call_book import NAMES, CallBook
from ringtune.torch_backend.calls import Calls
from ringtune.torch_backend.works import EngineWork, FutureKeeper


class Operation:
    """An operation that ends when it is told to, or when somebody waits long enough."""

    def __init__(self, *, ends_by_waiting: bool = True) -> None:
        self.is_done = False
        self.limits: list[float] = []
        self._ends_by_waiting = ends_by_waiting

    def poll(self) -> bool:
        """Return whether it has ended."""
        return self.is_done

    def has_ended(self, limit_s: float) -> bool:
        """End, or take note of the wait."""
        self.limits.append(limit_s)
        self.is_done = self.is_done or self._ends_by_waiting
        return self.is_done


def calls(rank: int = 0, store: Any = None) -> Calls:
    """Return the calls of one rank of two."""
    return Calls(HashStore() if store is None else store, rank, 2, FutureKeeper(), CallBook())


def started(group: Calls, *key: Any, operation: Operation | None = None) -> tuple[EngineWork, str]:
    """Start a call; return its work and the name that the engine gets."""
    names: list[str] = []

    def submit(name: str) -> list[Operation]:
        names.append(name)
        return [Operation() if operation is None else operation]

    work = group.start(key, submit, [torch.ones(1)])
    return work, names[0]


def test_equal_calls_take_names_in_turn() -> None:
    """Equal calls have different names while they are in flight, and the same ones again later."""
    group = calls()

    names = [started(group, "all_reduce", 3)[1] for _ in range(2 * NAMES)]

    assert NAMES == len(set(names))
    assert names[:NAMES] == names[NAMES:]


def test_a_name_is_given_out_again_once_its_call_has_ended() -> None:
    """The call that would need a name in flight waits for the one that has it."""
    group = calls()
    first = Operation()
    started(group, "all_reduce", operation=first)

    for _ in range(NAMES):
        started(group, "all_reduce")

    assert first.is_done


def test_a_refused_call_has_no_number() -> None:
    """A call that the engine does not take leaves the numbers and names as they are."""
    group = calls()

    def refuse(_name: str) -> list[Operation]:
        raise ConfigError("no")

    with pytest.raises(ConfigError):
        group.start(("all_reduce",), refuse, [])

    assert 0 == group.number
    assert started(group, "all_reduce")[1] == started(calls(), "all_reduce")[1]


def test_differing_calls_of_one_number_are_told() -> None:
    """A rank that waits learns from the store which call of the same number another rank has made."""
    store = HashStore()
    here, there = calls(0, store), calls(1, store)
    started(here, "all_reduce", "SUM", operation=Operation())
    started(there, "broadcast", operation=Operation())

    here.check()
    there.check()
    with pytest.raises(MismatchError, match=r"call 1 .* is broadcast on rank 1 but all_reduce SUM on rank 0"):
        there.check()


def test_names_after_a_difference_are_new() -> None:
    """Names that may be in flight for ever on another rank are not used again."""
    store = HashStore()
    here, there = calls(0, store), calls(1, store)
    _, before = started(here, "all_reduce", operation=Operation())
    started(there, "broadcast", operation=Operation())
    there.check()
    here.check()

    with pytest.raises(MismatchError):
        here.check()

    assert before != started(here, "all_reduce")[1]


def test_another_order_of_the_same_calls_is_no_difference() -> None:
    """Ranks whose threads make the same calls in another order are not told of a difference."""
    store = HashStore()
    here, there = calls(0, store), calls(1, store)
    for group, kinds in ((here, ("all_reduce", "broadcast")), (there, ("broadcast", "all_reduce"))):
        for kind in kinds:
            started(group, kind)

    for _ in range(3):
        here.check()
        there.check()

    assert 2 == here.number


def test_equal_calls_pass_the_comparison() -> None:
    """Ranks that make the same calls are not disturbed, whoever is ahead."""
    store = HashStore()
    here, there = calls(0, store), calls(1, store)
    for group, count in ((here, 2), (there, 3)):
        for _ in range(count):
            started(group, "all_reduce")

    here.check()
    there.check()

    assert 2 == here.number


def test_calls_of_a_closed_group_are_refused() -> None:
    """A call after the group was destroyed is an error that says so."""
    group = calls()
    group.close()

    with pytest.raises(ConfigError, match="destroyed"):
        started(group, "barrier")


def test_a_rank_hears_of_a_difference_after_the_other_has_gone_on_to_the_call_that_it_waits_for() -> None:
    """The other rank has raised and calls the same thing next: that is no other order of the same calls."""
    store = HashStore()
    here, there = calls(0, store), calls(1, store)
    started(here, "all_reduce", operation=Operation())
    started(there, "broadcast", operation=Operation())
    here.check()
    there.check()
    with pytest.raises(MismatchError):
        there.check()
    started(there, "all_reduce", operation=Operation())
    there.check()

    with pytest.raises(MismatchError, match=r"call 1 .* is all_reduce on rank 0 but broadcast on rank 1"):
        here.check()
