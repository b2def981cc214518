# SPDX-License-Identifier: Apache-2.0
"""Bootstrap under an MPI launcher before any MPI is there; the MPIs themselves are tested with their launchers."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap import find_place, mpi
from ringtune.meeting.bootstrap.mpi import MpiExchange

SLURM = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "1", "SLURM_NODELIST": "a"}


class OneRank:
    """The world of an MPI that belongs to another launcher: it has one rank."""

    def Get_size(self) -> int:  # noqa: N802  (mpi4py's name)
        """Return the size."""
        return 1

    def Get_rank(self) -> int:  # noqa: N802  (mpi4py's name)
        """Return the rank."""
        return 0

    def Allgather(self, send: Any, receive: Any) -> None:  # noqa: N802  (mpi4py's name)
        """Copy the memory, as the world has one rank."""
        receive[0][:] = send[0]

    def Bcast(self, _memory: Any, root: int) -> None:  # noqa: N802  (mpi4py's name)
        """Leave the memory as it is, as the world has one rank."""
        assert 0 == root


def install_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an MPI in place that is not the launcher's."""
    module = SimpleNamespace(
        COMM_WORLD=OneRank(), BYTE=None, Get_library_version=lambda: "Some MPI 1.0\nbuilt yesterday"
    )
    monkeypatch.setattr(mpi, "load_mpi", lambda _wanted: module)


def remove_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the import of mpi4py fail, installed or not."""
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"])
def test_without_mpi4py_the_user_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Ranks under mpirun would otherwise each train alone, unnoticed."""
    remove_mpi(monkeypatch)

    with pytest.raises(ConfigError, match=f"{name}='2'.*pip install mpi4py.*torchrun"):
        find_place({name: "2"}, 0, 1.0)


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])
def test_one_rank_needs_no_mpi(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """`mpirun -n 1` is a world of one."""
    remove_mpi(monkeypatch)

    assert 1 == find_place({name: "1"}, 0, 1.0).world_size


def test_another_launchers_mpi_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An MPI that does not know its launcher sees one rank, of as many worlds as there are processes."""
    install_mpi(monkeypatch)

    with pytest.raises(ConfigError) as caught:
        find_place({"PMI_SIZE": "4", "PMI_RANK": "1"}, 0, 1.0)

    assert "started 4 ranks (PMI_SIZE), but mpi4py's MPI (Some MPI 1.0) sees 1" in str(caught.value)
    assert "the wheel's MPI is another than the one that mpirun belongs to" in str(caught.value)


@pytest.mark.parametrize("prepare", [install_mpi, remove_mpi])
def test_under_srun_its_own_way_follows(monkeypatch: pytest.MonkeyPatch, prepare: Any) -> None:
    """Slurm sets an MPI's variables for programs that have none."""
    prepare(monkeypatch)

    place = find_place({**SLURM, "PMI_SIZE": "2", "PMIX_RANK": "1", "RINGTUNE_JOB_KEY": "ab" * 32}, 0, 1.0)

    assert ("srun", 1, 2) == (place.source, place.rank, place.world_size)


def test_texts_travel_as_bytes_of_one_size() -> None:
    """A text of any length survives the padding."""
    exchange = MpiExchange(OneRank(), None)

    assert ["hällo"] == exchange.gather("hällo")
    assert "" == exchange.spread("")
