# SPDX-License-Identifier: Apache-2.0
"""Jobs under mpirun, with the data in shared memory and through MPI."""

import re
import sys

import pytest

from tests.integration.jobs import PROGRAMS as INTEGRATION_PROGRAMS
from tests.integration.jobs import run_job
from tests.mpi.launching import BIN, BY_MPI, OPEN_MPI, mpirun, rank_command


def lines(text: str) -> list[str]:
    """Return the ranks' lines in the order of the ranks, whatever else the launcher wrote."""
    return sorted(line for line in text.splitlines() if line.startswith("rank "))


def test_mpi_tells_the_places_and_shared_memory_carries_the_data() -> None:
    """Ranks of one machine share memory, and are counted by it: MPI's own local ranks may come in another order."""
    finished = mpirun(3, "places")

    assert 0 == finished.code, finished.text
    assert [f"rank {rank} of 3, local {rank} of 3, by shm" for rank in range(3)] == lines(finished.stdout)


def test_every_rank_is_a_host_of_its_own_where_mpi_is_asked_for_on_one_machine() -> None:
    """MPI carries all data between ranks of one machine, as RINGTUNE_TRANSPORT says."""
    finished = mpirun(3, "places", environ=BY_MPI)

    assert 0 == finished.code, finished.text
    assert [f"rank {rank} of 3, local 0 of 1, by mpi" for rank in range(3)] == lines(finished.stdout)


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_collective_is_right_through_mpi(ranks: int) -> None:
    """All sizes and dtypes, ragged rows, blocks of more than one message."""
    finished = mpirun(ranks, "collectives", environ=BY_MPI)

    assert 0 == finished.code, finished.text
    assert [f"rank {rank}: all as it must be, by mpi" for rank in range(ranks)] == lines(finished.stdout)


def test_a_process_set_has_a_communicator_of_its_own() -> None:
    """The set's ranks are numbered anew, and MPI knows which are meant."""
    finished = mpirun(3, "process_sets", environ=BY_MPI)

    assert 0 == finished.code, finished.text
    assert ["rank 0 is 0 of 2, by mpi", "rank 2 is 1 of 2, by mpi"] == lines(finished.stdout)


def test_the_world_can_be_joined_again() -> None:
    """MPI is initialised once; each world has a new communicator."""
    finished = mpirun(2, "rejoin", environ=BY_MPI)

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("joined three times")


def test_who_inherits_a_ranks_variables_does_not_reach_mpi() -> None:
    """A second process of a rank would hang in MPI's initialisation, or end the job there."""
    program = str(INTEGRATION_PROGRAMS / "inherits_place.py")

    finished = run_job([str(BIN / "mpirun"), "-n", "2", sys.executable, program], OPEN_MPI)

    assert 10 == len(re.findall(r" refused after .*: the place of rank [01] of 2 belongs to", finished.stdout)), (
        finished.text
    )
    assert (0, 2) == (finished.code, finished.stdout.count("is back")), finished.text


def test_a_rank_that_is_alone_needs_no_mpi() -> None:
    """The same command line serves for a try-out without mpirun."""
    finished = run_job(rank_command("places"), BY_MPI)

    assert 0 == finished.code, finished.text
    assert ["rank 0 of 1, local 0 of 1, by shm"] == lines(finished.stdout)


def test_a_job_may_use_mpi_itself() -> None:
    """A job that has imported mpi4py calls MPI while the engine does."""
    finished = mpirun(2, "own_mpi", environ=BY_MPI)

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("both at once")


def test_the_plugin_moves_and_reports() -> None:
    """Pieces, sizes that differ, errors, cancelling: the engine relies on these."""
    finished = mpirun(2, "transfers")

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("all as it must be")
