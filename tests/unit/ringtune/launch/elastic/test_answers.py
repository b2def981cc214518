# SPDX-License-Identifier: Apache-2.0
"""Answers of host discovery: hosts that are read, and faults that are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.launch.elastic.answers import (
    MAX_HOSTS,
    MAX_SHOWN_CHARACTERS,
    Answer,
    FoundHost,
    answer_text,
    once_here,
    read_answer,
)


def hosts_of(text: str, slots: int = 1) -> list[tuple[str, int]]:
    """Return names and slots of the hosts that a text names."""
    return [(host.name, host.slots) for host in read_answer(text, slots).hosts]


def test_every_form_of_a_line_is_read() -> None:
    """Horovod's `host:slots`, a bare host, a hostfile's line, IPv6 in brackets, comments and empty lines."""
    text = "a:2\n\n# c:9\nb\nada@d slots=3\n[fd00::3]:4\ne:0\n"

    assert [("a", 2), ("b", 7), ("ada@d", 3), ("fd00::3", 4), ("e", 0)] == hosts_of(text, slots=7)
    assert read_answer(text, 7).is_whole


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        ("a:2\nPermission denied", "line", "line 2, 'Permission denied', names no host"),
        ("a:2\n-oProxyCommand=x", "line", "names no host"),
        ("a:2\n\x00\x01", "line", "names no host"),
        ("a:2\nb:two", "line", "'b:two'"),
        ("a:2\nb:-1", "line", "'b:-1'"),
        ("a:2\nb:251", "slots", "allowed: 0 to 250"),
        ("a:2\nb:99999999999999999999", "line", "names no host"),
        ("", "empty", "it named no host"),
        ("# none\n", "empty", "it named no host"),
    ],
)
def test_a_fault_is_named_and_hides_no_host(text: str, kind: str, word: str) -> None:
    """The good lines hold; a host that is missing from such an answer is not removed."""
    answer = read_answer(text, 1)

    (problem,) = answer.problems
    assert kind == problem.kind
    assert word in problem.text
    assert not answer.is_whole
    assert [("a", 2)] * ("a:2" in text) == hosts_of(text)


def test_a_host_that_is_named_twice_has_the_larger_number() -> None:
    """The fault hides no host: others are still removed."""
    answer = read_answer("a:2\nA.:3\nb\na:1", 1)

    assert [("a", 3), ("b", 1)] == hosts_of("a:2\nA.:3\nb\na:1")
    assert ["twice"] == [problem.kind for problem in answer.problems]
    assert answer.is_whole


def test_each_kind_of_fault_is_named_once_and_shortly() -> None:
    """A page of garbage is one problem."""
    answer = read_answer("\n".join(f"{'garbage ' * 900}{number}" for number in range(100)), 1)

    (problem,) = answer.problems
    assert problem.text.startswith("line 1, ")
    assert len(problem.text) < MAX_SHOWN_CHARACTERS + 100


def test_more_hosts_than_any_cluster_has_are_none() -> None:
    """The answer is refused as a whole."""
    answer = read_answer("\n".join(f"host{number}" for number in range(MAX_HOSTS + 1)), 1)

    assert ((), ["size"]) == (answer.hosts, [problem.kind for problem in answer.problems])


@given(st.text())
def test_no_text_is_more_than_a_fault(text: str) -> None:
    """An answer comes of every text, and every host has a possible number of slots."""
    answer = read_answer(text, 1)

    assert answer.hosts or answer.problems
    assert all(0 <= host.slots <= 250 for host in answer.hosts)


def test_this_machine_has_one_name() -> None:
    """The first holds; other hosts stay, and are removed as ever."""
    hosts = (FoundHost("localhost", 2, is_here=True), FoundHost("b", 1), FoundHost("127.0.0.1", 4, is_here=True))

    answer = once_here(Answer(hosts))

    assert hosts[:2] == answer.hosts
    assert ["localhost and 127.0.0.1 are all this machine; localhost holds"] == [p.text for p in answer.problems]
    assert answer.is_whole
    assert Answer(hosts[:2]) == once_here(Answer(hosts[:2]))


def test_what_a_function_returns_becomes_lines() -> None:
    """A mapping, pairs, names, and IPv6 addresses."""
    assert "a:2\n[fd00::3]:4" == answer_text({"a": 2, "fd00::3": 4})
    assert "a\nb:3\nc:1" == answer_text(["a", "b:3", ("c", 1)])


@pytest.mark.parametrize("found", [None, "a:2", 3, ["a", 3], [("a", "2")], {"a": True}, [("a", 1, 2)]])
def test_anything_else_that_a_function_returns_is_an_error(found: object) -> None:
    """The finder names the fault."""
    with pytest.raises((TypeError, ValueError)):
        answer_text(found)
