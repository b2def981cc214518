# SPDX-License-Identifier: Apache-2.0
"""Ownership of a place: one owner at a time, told apart by the launcher's variables; none in a world of one."""

import os
import secrets
from collections.abc import Iterator

import pytest

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap.ownership import Ownership, find_owner, identify

TORCHRUN = {
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RUN_ID": secrets.token_hex(8),
    "RANK": "1",
    "WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "4000",
}
OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-1@1"}
SLURM = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "77"}


@pytest.fixture
def place() -> dict[str, str]:
    """Return the variables of a rank of a new job."""
    return {
        "RINGTUNE_RANK": "1",
        "RINGTUNE_WORLD_SIZE": "2",
        "RINGTUNE_RENDEZVOUS": "unix:@job",
        "RINGTUNE_JOB_KEY": secrets.token_hex(32),
    }


@pytest.fixture
def owner(place: dict[str, str]) -> Iterator[Ownership]:
    """Return the owner of the place."""
    ownership = Ownership()
    assert place == ownership.claim(place)
    yield ownership
    ownership.release()


@pytest.mark.usefixtures("owner")
def test_the_second_is_refused_and_told_who_was_first(place: dict[str, str]) -> None:
    """The error names the owner's process; its secret stays unsaid."""
    with pytest.raises(ConfigError, match=f"rank 1 of 2 belongs to process {os.getpid()} ") as caught:
        Ownership().claim(place)

    assert place["RINGTUNE_JOB_KEY"] not in str(caught.value)
    assert os.getpid() == find_owner(place)


def test_the_owner_claims_again_and_remembers_its_variables(owner: Ownership, place: dict[str, str]) -> None:
    """Missing variables are completed; values that are set afterwards hold."""
    assert place == owner.claim(place)
    assert {"A": "1", **place} == owner.claim({"A": "1"})
    assert {"RINGTUNE_RANK": "0"} == owner.claim({"RINGTUNE_RANK": "0"})


def test_a_place_that_was_given_up_is_free(owner: Ownership, place: dict[str, str]) -> None:
    """The next process of the same script may have it."""
    owner.release()
    successor = Ownership()

    assert find_owner(place) is None
    assert place == successor.claim(place)
    successor.release()


@pytest.mark.usefixtures("owner")
def test_the_next_job_of_a_process_frees_the_place_of_the_one_before(owner: Ownership, place: dict[str, str]) -> None:
    """A process that takes part in one job after another, as an actor of Ray's does, holds one socket."""
    owner.claim({**place, "RINGTUNE_JOB_KEY": secrets.token_hex(32)})

    assert find_owner(place) is None


@pytest.mark.parametrize("name", ["RINGTUNE_RANK", "RINGTUNE_RENDEZVOUS", "RINGTUNE_JOB_KEY"])
def test_other_ranks_and_other_jobs_have_other_places(place: dict[str, str], name: str) -> None:
    """A place that another rank or another job of this host owns refuses no process."""
    other = {**place, name: "0" if name == "RINGTUNE_RANK" else secrets.token_hex(32)}

    assert find_owner(other) is None


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"RINGTUNE_RANK": "0", "RINGTUNE_WORLD_SIZE": "1"},
        {**TORCHRUN, "WORLD_SIZE": "1"},
        {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "1"},
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1"},
        {"PMI_SIZE": "2", "PMI_RANK": "1"},
        {"MPI_LOCALNRANKS": "2", "PMI_PORT": "h:1"},
    ],
)
def test_a_world_of_one_has_no_owner(environ: dict[str, str]) -> None:
    """Alone, any number of processes may call init(); so may those whose launcher does not tell its jobs apart."""
    assert identify(environ) is None
    assert environ == Ownership().claim(environ)


@pytest.mark.parametrize(
    ("environ", "changes"),
    [
        (TORCHRUN, {"RANK": "0", "MASTER_PORT": "4001", "TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_RESTART_COUNT": "1"}),
        (OPEN_MPI, {"OMPI_COMM_WORLD_RANK": "0", "PMIX_NAMESPACE": "prterun-2@1"}),
        ({"PMI_SIZE": "2", "PMI_RANK": "1", "PMI_PORT": "h:1"}, {"PMI_RANK": "0", "PMI_PORT": "h:2"}),
        (SLURM, {"SLURM_PROCID": "0", "SLURM_STEP_ID": "1", "SLURM_JOB_ID": "78", "SLURM_RESTART_COUNT": "1"}),
    ],
)
def test_every_launcher_tells_places_apart(environ: dict[str, str], changes: dict[str, str]) -> None:
    """One rank of one job is one place; another rank, job or restart is another one."""
    identities = {identify(environ), *(identify({**environ, name: value}) for name, value in changes.items())}

    assert 1 + len(changes) == len({identity.text for identity in identities if identity is not None})
