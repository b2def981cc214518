# SPDX-License-Identifier: Apache-2.0
"""Jobs through MPI in which a rank fails: the others say so, and the job ends, which `mpirun` waits for."""

import pytest

from tests.integration.jobs import run_job
from tests.mpi.launching import BIN, BY_MPI, OPEN_MPI, mpirun, rank_command


@pytest.mark.parametrize("arguments", [(), ("own-mpi",)], ids=["", "own-mpi"])
def test_a_stopped_rank_ends_the_job_after_the_limit(arguments: tuple[str, ...]) -> None:
    """The message names rank and variable; MPI, which cannot take transfers back, does not keep anyone at exit."""
    finished = mpirun(2, "stopped", *arguments, environ={**BY_MPI, "RINGTUNE_TIMEOUT_S": "8"})

    assert 0 != finished.code, finished.text
    assert "rank 0: CollectiveTimeout: " in finished.stdout, finished.text
    assert "rank 1 " in finished.stdout, finished.text
    assert "RINGTUNE_TIMEOUT_S" in finished.stdout, finished.text


def test_a_rank_that_raises_ends_the_job() -> None:
    """Its own error is in the output, whether mpirun or a survivor is first to notice."""
    finished = mpirun(3, "lost", "raises", environ=BY_MPI)

    assert 0 != finished.code, finished.text
    assert "ValueError: this rank has a bug" in finished.stderr, finished.text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("error",), 1), (("exit",), 3), (("raise",), 4), (("error", "own-mpi"), 1), (("-m", "exit"), 3)],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_rank_that_fails_ends_the_job_while_another_is_busy(arguments: tuple[str, ...], code: int) -> None:
    """MPI is not finalised there, which would wait for the other rank; `python -m mpi4py` aborts the job as ever."""
    python, program, *given = rank_command("failing", *(word for word in arguments if word != "-m"))
    runner = ["-m", "mpi4py"] if "-m" in arguments else []

    finished = run_job([str(BIN / "mpirun"), "-n", "2", python, *runner, program, *given], OPEN_MPI)

    assert code == finished.code, finished.text
    assert ("ValueError: a sample that cannot be read" in finished.stderr) == ("error" in arguments), finished.text


@pytest.mark.parametrize("transport", ["mpi", "tcp", "shm"])
def test_a_killed_rank_ends_the_job(transport: str) -> None:
    """The job ends whether mpirun or a survivor is first to notice."""
    finished = mpirun(3, "lost", "killed", environ={"RINGTUNE_TRANSPORT": transport})

    assert 0 != finished.code, finished.text
