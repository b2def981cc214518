# SPDX-License-Identifier: Apache-2.0
"""Ranks and their hosts."""

import pytest

from ringtune.meeting.rendezvous.layout import Layout, assign_hosts


@pytest.mark.parametrize(
    ("identities", "transport", "separated", "hosts"),
    [
        ("aaa", "auto", (), (0, 0, 0)),
        ("baab", "auto", (), (0, 1, 1, 0)),
        ("abc", "shm", (), (0, 1, 2)),
        ("aaa", "tcp", (), (0, 1, 2)),
        ("aab", "tcp", (), (0, 1, 2)),
        ("aaa", "mpi", (), (0, 1, 2)),
        ("aab", "mpi", (), (0, 0, 1)),
        ("aabb", "auto", (2, 3), (0, 0, 1, 2)),
    ],
)
def test_hosts_are_numbered_by_their_first_ranks(
    identities: str, transport: str, separated: tuple[int, ...], hosts: tuple[int, ...]
) -> None:
    """Equal identities share a host, unless the transport or a lack of memory keeps them apart."""
    assert hosts == assign_hosts(list(identities), transport, separated)


def test_ranks_are_counted_across_the_hosts_that_have_their_local_rank() -> None:
    """Horovod's meaning, where hosts have different numbers of ranks."""
    hosts = (0, 0, 0, 1, 2, 2)

    layouts = [Layout(rank, hosts) for rank in range(len(hosts))]

    assert [0, 1, 2, 0, 0, 1] == [layout.local_rank for layout in layouts]
    assert [0, 0, 0, 1, 2, 1] == [layout.cross_rank for layout in layouts]
    assert [3, 2, 1, 3, 3, 2] == [layout.cross_size for layout in layouts]


def test_a_layout_answers_for_its_rank() -> None:
    """Local ranks follow the world's order on the host, whatever a launcher says."""
    layout = Layout(3, (0, 1, 0, 1, 1))

    assert (1, 2, (1, 3, 4), 1, 3, (2, 3), 5) == (
        layout.host,
        layout.host_count,
        layout.local_ranks,
        layout.local_rank,
        layout.local_size,
        layout.ranks_per_host,
        layout.world_size,
    )
