# SPDX-License-Identifier: Apache-2.0
"""Jobs through MPI in which a rank fails: the others say so, and the job ends, which `mpirun` waits for."""

import pytest

from tests.mpi.launching import BY_MPI, mpirun


@pytest.mark.parametrize("arguments", [(), ("own-mpi",)], ids=["", "own-mpi"])
def test_a_stopped_rank_ends_the_job_after_the_limit(arguments: tuple[str, ...]) -> None:
    """The message names rank and variable; MPI, which cannot take transfers back, does not keep anyone at exit."""
    finished = mpirun(2, "stopped", *arguments, environ={**BY_MPI, "RINGTUNE_TIMEOUT_S": "8"})

    assert 0 != finished.code, finished.text
    assert "rank 0: CollectiveTimeout: " in finished.stdout, finished.text
    assert "rank 1 " in finished.stdout, finished.text
    assert "RINGTUNE_TIMEOUT_S" in finished.stdout, finished.text


def test_a_rank_that_raises_ends_the_job() -> None:
    """The others learn that it has left, and its own error is in the output."""
    finished = mpirun(3, "lost", "raises", environ=BY_MPI)

    assert 0 != finished.code, finished.text
    assert "ValueError: this rank has a bug" in finished.stderr, finished.text
    assert "PeerLostError: rank 1 " in finished.stdout, finished.text


@pytest.mark.parametrize("transport", ["mpi", "tcp", "shm"])
def test_a_killed_rank_ends_the_job(transport: str) -> None:
    """The job ends whether mpirun or a survivor is first to notice."""
    finished = mpirun(3, "lost", "killed", environ={"RINGTUNE_TRANSPORT": transport})

    assert 0 != finished.code, finished.text
