# SPDX-License-Identifier: Apache-2.0
"""The part of a world that its ranks inherit in a smaller one."""

import pytest

from ringtune.meeting.rendezvous import Layout
from ringtune.settings.settings import Settings
from ringtune.world.world import part_settings

TWO_HOSTS = Layout(0, (0, 0, 1, 1))
EACH_APART = Layout(0, (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("layout", "ranks", "expected"),
    [
        (TWO_HOSTS, [2, 3], "auto"),
        (TWO_HOSTS, [0, 1], "auto"),
        (TWO_HOSTS, [1, 2], "mpi"),
        (TWO_HOSTS, [0, 1, 2, 3], "mpi"),
        (EACH_APART, [0, 1], "mpi"),
    ],
)
def test_ranks_of_one_host_share_its_memory_where_mpi_joins_the_hosts(
    layout: Layout, ranks: list[int], expected: str
) -> None:
    """A process set inside a host needs no MPI; on one machine, where MPI was asked for, each rank is a host."""
    settings = Settings.from_environment({"RINGTUNE_TRANSPORT": "mpi", "RINGTUNE_CYCLE_MS": "2"})

    part = part_settings(settings, layout, ranks)

    assert expected == part.transport
    assert 2.0 == part.given["RINGTUNE_CYCLE_MS"]


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_other_transports_are_handed_on(transport: str) -> None:
    """A choice of TCP holds everywhere."""
    settings = Settings.from_environment({"RINGTUNE_TRANSPORT": transport})

    assert settings is part_settings(settings, TWO_HOSTS, [2, 3])
