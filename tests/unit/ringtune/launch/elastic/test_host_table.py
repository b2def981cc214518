# SPDX-License-Identifier: Apache-2.0
"""The table of hosts: the changes by an answer, and how long a host that fails gets no new worker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.launch.elastic.answers import Answer, AnswerFault, FoundHost, failed
from ringtune.launch.elastic.host_table import NEVER_S, Cooldown, HostTable

RANGE = Cooldown(10.0, 100.0)


def answer(*hosts: tuple[str, int]) -> Answer:
    """Return an answer without faults."""
    return Answer(tuple(FoundHost(name, slots) for name, slots in hosts))


def table_of(*hosts: tuple[str, int]) -> HostTable:
    """Return a table after one answer."""
    table = HostTable(RANGE)
    table.note(answer(*hosts))
    return table


def available(table: HostTable, now_s: float = 0.0) -> list[tuple[str, int]]:
    """Return the names and slots of hosts that may get a new worker."""
    return [(host.name, host.slots) for host in table.available(now_s)]


def test_hosts_are_added_at_once_and_keep_their_order() -> None:
    """The older hosts come first, in whatever order an answer names them."""
    table = table_of(("b", 1), ("a", 2))
    table.note(answer(("c", 1), ("a", 3), ("b", 1)))

    assert [("b", 1), ("a", 3), ("c", 1)] == available(table)


def test_a_host_is_removed_once_two_answers_lack_it() -> None:
    """A file that is read half written removes none, nor does a host that flaps with each answer."""
    table = table_of(("a", 2), ("b", 2))

    for _ in range(3):
        table.note(answer(("a", 2)))
        assert 2 == table.slots_of("b")
        table.note(answer(("a", 2), ("b", 2)))
    table.note(answer(("a", 2)))
    table.note(answer(("a", 2)))

    assert (0, 2) == (table.slots_of("b"), table.slots_of("a"))


@pytest.mark.parametrize(
    ("known", "again"),
    [
        (FoundHost("localhost", 2, is_here=True), FoundHost("127.0.0.1", 3, is_here=True)),
        (FoundHost("node1", 2), FoundHost("NODE1.", 3)),
        (FoundHost("fe80::1", 2), FoundHost("fe80:0::1", 3)),
    ],
)
def test_another_name_of_a_host_is_the_same_host(known: FoundHost, again: FoundHost) -> None:
    """Its workers stay; so does it after it was gone, and its failures."""
    table = HostTable(RANGE)
    table.note(Answer((known,)))
    table.blame([known.name], now_s=0.0)

    for found in ((again,), (again,), (), (), (again,)):
        faults = () if found else (AnswerFault("x", "x", hides_hosts=False),)
        table.note(Answer(found, faults))

    assert ([], [(known.name, 3)]) == (available(table, 9.0), available(table, 10.0))


def test_slots_are_reduced_once_two_answers_say_so() -> None:
    """More slots hold at once."""
    table = table_of(("a", 4))

    table.note(answer(("a", 2)))
    assert 4 == table.slots_of("a")
    table.note(answer(("a", 2)))
    assert 2 == table.slots_of("a")
    table.note(answer(("a", 5)))
    assert 5 == table.slots_of("a")


def test_an_answer_with_a_fault_adds_hosts_and_removes_none() -> None:
    """The last good answer holds for hosts that it may not have named."""
    table = table_of(("a", 1))

    for _ in range(5):
        table.note(Answer((FoundHost("b", 1),), (AnswerFault("line", "garbage"),)))
        table.note(failed("exit", "exit code 1"))

    assert [("a", 1), ("b", 1)] == available(table)


def test_the_pause_doubles_up_to_its_longest_and_ends() -> None:
    """No host is left out for ever."""
    table = table_of(("a", 1))
    now_s, pauses = 0.0, []

    for _ in range(6):
        pauses.append(table.blame(["a"], now_s)["a"])
        assert [] == available(table, now_s)
        now_s = table.next_change_s(now_s)
        assert [("a", 1)] == available(table, now_s)

    assert [10.0, 20.0, 40.0, 80.0, 100.0, 100.0] == pauses
    assert NEVER_S == table.next_change_s(now_s)


def test_workers_that_fail_together_are_one_failure() -> None:
    """A host that is cooling is not blamed again, and another host is not touched."""
    table = table_of(("a", 4), ("b", 1))

    assert {"a": 10.0} == table.blame(["a", "a", "a"], 0.0)
    assert {} == table.blame(["a"], 1.0)
    assert [("b", 1)] == available(table, 1.0)


def test_a_host_that_has_run_well_for_long_begins_anew() -> None:
    """The number of failures counts for as long as the longest pause."""
    table = table_of(("a", 1))
    table.blame(["a"], 0.0)
    table.blame(["a"], 15.0)

    assert {"a": 10.0} == table.blame(["a"], 15.0 + 20.0 + RANGE.longest_s + 1.0)


def test_a_host_that_was_removed_and_comes_back_has_its_failures() -> None:
    """Removal is no pardon, and no blame either."""
    table = table_of(("a", 1), ("b", 1))
    table.blame(["a"], 0.0)
    for _ in range(2):
        table.note(answer(("b", 1)))
    assert {} == table.blame(["a"], 2.0)

    table.note(answer(("a", 1), ("b", 1)))

    assert [("b", 1)] == available(table, 9.0)
    assert {"a": 20.0} == table.blame(["a"], 11.0)


def test_the_table_in_words_names_slots_and_pauses() -> None:
    """People see why a host gets no worker."""
    table = table_of(("a", 1), ("b", 2))
    table.blame(["b"], 0.0)

    assert "a with 1 slot, b with 2 slots (no new worker for 6 s after a failure)" == table.describe(4.0)
    assert "no host" == HostTable(RANGE).describe(0.0)


@given(st.lists(st.floats(0.0, 1e6), max_size=200))
def test_no_history_of_failures_keeps_a_host_out_for_longer_than_the_longest_pause(gaps: list[float]) -> None:
    """However often it fails, and whenever."""
    table, now_s = table_of(("a", 1)), 0.0

    for gap_s in gaps:
        now_s += gap_s
        table.blame(["a"], now_s)

    assert [("a", 1)] == available(table, now_s + RANGE.longest_s)
