# SPDX-License-Identifier: Apache-2.0
"""A job under mpirun on two hosts: shared memory inside each, MPI between them."""

from pathlib import Path

from tests.integration.hosts import hosts, needs_hosts
from tests.mpi.launching import mpirun_on


@needs_hosts
def test_ranks_of_one_host_share_memory_and_mpi_joins_the_hosts(tmp_path: Path) -> None:
    """Local ranks are counted on each host, and every collective is right."""
    with hosts(2) as made:
        places = mpirun_on(made, 2, tmp_path, "places")
        collectives = mpirun_on(made, 2, tmp_path, "collectives")

    assert 0 == places.code, places.text
    assert [f"rank {rank} of 4, local {rank % 2} of 2, by mpi" for rank in range(4)] == sorted(
        places.stdout.splitlines()
    ), places.text
    assert 0 == collectives.code, collectives.text
    assert 4 == collectives.stdout.count("all as it must be, by mpi"), collectives.text
