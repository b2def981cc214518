# SPDX-License-Identifier: Apache-2.0
"""Hosts as `-H` and hostfiles name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.errors import ConfigError
from ringtune.launch.hosts import MAX_SLOTS, HostShare, HostSlots, hosts_text, parse_hostfile, parse_hosts, share_out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", [("a", 1)]),
        ("a:2,b", [("a", 2), ("b", 1)]),
        ("a:1 , b.example.org:12", [("a", 1), ("b.example.org", 12)]),
        ("10.0.0.1:2,[fd00::3]:4,[::1]", [("10.0.0.1", 2), ("fd00::3", 4), ("::1", 1)]),
        ("ada@a:2", [("ada@a", 2)]),
        (f"a:{MAX_SLOTS}", [("a", MAX_SLOTS)]),
    ],
)
def test_hosts_are_read_in_their_order(text: str, expected: list[tuple[str, int]]) -> None:
    """Slots default to one; addresses of either kind and logins are names too."""
    assert expected == [(host.name, host.slots) for host in parse_hosts(text)]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "'' is not a host"),
        ("a,,b", "'' is not a host"),
        ("a:", "'a:' is not a host"),
        ("a:two", "'a:two' is not a host"),
        ("a:-1", "'a:-1' is not a host"),
        ("-oProxyCommand=x", "is not a host"),
        ("x@-oProxyCommand=x", "is not a host"),
        ("a b", "is not a host"),
        ("a;reboot", "is not a host"),
        ("fd00::3", "is not a host"),
        ("[fd00::3", "is not a host"),
        ("[fd00:::3]", "no IPv6 address"),
        ("a:0", "0 slots are not possible"),
        (f"a:{MAX_SLOTS + 1}", f"allowed: 1 to {MAX_SLOTS}"),
        ("a:2,b,a", "names the host 'a' twice"),
        ("a,A", "twice"),
        ("a,ada@a", "twice"),
        ("[::1],[0:0::1]", "twice"),
    ],
)
def test_what_is_no_list_of_hosts_is_an_error(text: str, word: str) -> None:
    """A malformed entry, a host named twice and a name that ssh would take for an option are refused with the entry."""
    with pytest.raises(ConfigError, match=r"-H") as error:
        parse_hosts(text)

    assert word in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aa slots=2\nbb slots=2\ncc slots=2\n", [("aa", 2), ("bb", 2), ("cc", 2)]),
        ("a:2\nb:4", [("a", 2), ("b", 4)]),
        ("# the cluster\n\n  a  slots=2  # fast\nb\r\n", [("a", 2), ("b", 3)]),
        ("a slots=2 max_slots=4\nb max-slots=4 slots=1", [("a", 2), ("b", 1)]),
        ("[fd00::1]:2\n[fd00::2] slots=4\nada@b", [("fd00::1", 2), ("fd00::2", 4), ("ada@b", 3)]),
    ],
)
def test_a_hostfile_has_a_host_a_line(text: str, expected: list[tuple[str, int]]) -> None:
    """Horovod's and Open MPI's `slots=N`, and MPICH's `host:N`; a host without a number has the default."""
    assert expected == [(host.name, host.slots) for host in parse_hostfile(text, "hosts", 3)]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "names no host"),
        ("# nothing\n", "names no host"),
        ("a slots=2\nb slots=two", "line 2: 'slots=two' is not known"),
        ("a\nb slot=2", "line 2: 'slot=2' is not known"),
        ("a slots=0", "line 1: 0 slots are not possible"),
        ("a:2 slots=2", "line 1: 'a:2 slots=2' says twice"),
        ("a slots=2\na slots=2", "names the host 'a' twice"),
        ("a,b slots=2", "line 1: 'a,b:2' is not a host"),
        ("-oProxyCommand=x", "is not a host"),
    ],
)
def test_what_is_no_hostfile_is_an_error(text: str, word: str) -> None:
    """The message names file and line."""
    with pytest.raises(ConfigError, match="--hostfile cluster.txt") as error:
        parse_hostfile(text, "cluster.txt")

    assert word in str(error.value)


def test_hosts_are_written_as_they_are_read() -> None:
    """A hostfile becomes -H for programs that start jobs several times."""
    hosts = parse_hostfile("ada@node1 slots=2\n[fd00::1]:3\nnode3\n", "hosts")

    assert "ada@node1:2,[fd00::1]:3,node3:1" == hosts_text(hosts)
    assert hosts == parse_hosts(hosts_text(hosts))


def test_ranks_fill_the_hosts_in_order() -> None:
    """The first host is full before the second gets a rank; hosts without ranks are left out."""
    hosts = [HostSlots("a", 2), HostSlots("b", 3), HostSlots("c")]

    assert (HostShare("a", (0, 1)), HostShare("b", (2, 3))) == share_out(hosts, 4)


def test_more_ranks_than_slots_is_an_error_with_both() -> None:
    """The error has the number of ranks and the number of slots."""
    with pytest.raises(ConfigError, match=r"-np 4 is more than the 3 slots of the hosts \(a: 2, b: 1\)"):
        share_out([HostSlots("a", 2), HostSlots("b")], 4)


@given(slots=st.lists(st.integers(1, 5), min_size=1, max_size=8), data=st.data())
def test_every_rank_has_one_place(slots: list[int], data: st.DataObject) -> None:
    """Shares are the ranks 0 to n-1 cut into consecutive pieces, none larger than its host."""
    ranks = data.draw(st.integers(1, sum(slots)))

    shares = share_out([HostSlots(f"h{number}", count) for number, count in enumerate(slots)], ranks)

    assert list(range(ranks)) == [rank for share in shares for rank in share.ranks]
    assert all(1 <= len(share.ranks) <= slots[int(share.host[1:])] for share in shares)
