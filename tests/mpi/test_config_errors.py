# SPDX-License-Identifier: Apache-2.0
"""Faults of an MPI or of its use: every rank names the fault and the remedy."""

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtune import _engine
from ringtune.errors import ConfigError
from ringtune.meeting.mpi_plugin import installed_plugin
from ringtune.tuner.space.parameters import default_config
from ringtune.world.engine_config import engine_config
from tests.integration.jobs import REPOSITORY, ringtune, run_job
from tests.mpi.launching import BIN, BY_MPI, mpirun, put_aside, rank_command

PLUGINS = "lib/*/site-packages/ringtune/mpi/*.so"


def other_mpis(repository: Path, own: Path) -> list[Path]:
    """Return the environments of a repository that have another MPI than ours: launcher, compiler and built plugin.

    Intel's MPI, which `make setup-impi` installs for benchmarks, has no plugin.
    """

    def vendors(folder: Path) -> set[str]:
        return {path.stem.rpartition("-")[0] for path in folder.glob(PLUGINS)}

    return [
        folder
        for folder in sorted(repository.glob(".venv-*"))
        if all((folder / "bin" / tool).is_file() for tool in ("mpirun", "mpicxx")) and vendors(folder) - vendors(own)
    ]


OTHER_MPIS = other_mpis(REPOSITORY, BIN.parent)
needs_another_mpi = pytest.mark.skipif(not OTHER_MPIS, reason="no environment of another MPI; `make setup-mpi` has two")


def test_other_environments_are_known_by_what_they_hold(tmp_path: Path) -> None:
    """A name is not enough: an environment without launcher, compiler or plugin, or of our own MPI, is none."""
    tools, mpich, open_mpi = ("mpirun", "mpicxx"), "mpich-5.0.2", "open-mpi-5.0.11"
    made = {
        "mpich": (tools, mpich),
        "impi": (tools, None),
        "mpich-older": (tools, "mpich-4.3.1"),
        "openmpi-half": (("mpirun",), open_mpi),
        "zmpi": (tools, open_mpi),
    }
    for name, (programs, plugin) in made.items():
        folder = tmp_path / f".venv-{name}"
        files = [folder / "bin" / program for program in programs]
        files += [folder / "lib/python3/site-packages/ringtune/mpi" / f"{plugin}.so"] if plugin else []
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()

    assert [tmp_path / ".venv-zmpi"] == other_mpis(tmp_path, tmp_path / ".venv-mpich")


@pytest.fixture(name="mpi")
def fixture_mpi() -> Any:
    """Return mpi4py's MPI, not initialised."""
    importlib.import_module("mpi4py").rc.initialize = False
    return importlib.import_module("mpi4py.MPI")


@pytest.fixture(name="aside")
def fixture_aside(mpi: Any) -> Iterator[Path]:
    """Put the plugin aside and return the name under which it is missing."""
    plugin = installed_plugin(mpi)
    with put_aside(plugin):
        yield plugin


@pytest.mark.usefixtures("aside")
def test_a_missing_plugin_is_named_with_the_command_that_builds_it() -> None:
    """On every rank, and before anything waits in MPI."""
    finished = mpirun(2, "places", environ=BY_MPI)

    assert 0 != finished.code, finished.text
    assert "ConfigError: the MPI transport has no plugin for " in finished.stderr, finished.text
    assert "python -m ringtune.mpi_plugin" in finished.stderr, finished.text


@needs_another_mpi
def test_another_mpis_plugin_is_refused(aside: Path) -> None:
    """A file under the right name does not get a wrong library past the check; it would crash."""
    foreign = next(path for path in OTHER_MPIS[0].glob(PLUGINS))
    aside.write_bytes(foreign.read_bytes())

    finished = mpirun(2, "places", environ=BY_MPI)

    assert 0 != finished.code, finished.text
    assert " belongs to " in finished.stderr, finished.text
    assert ", but mpi4py and mpirun to " in finished.stderr, finished.text


@needs_another_mpi
def test_another_mpis_compiler_builds_nothing(mpi: Any) -> None:
    """The plugin that was there stays."""
    before = installed_plugin(mpi).read_bytes()
    command = [sys.executable, "-m", "ringtune.mpi_plugin", "--compiler", str(OTHER_MPIS[0] / "bin/mpicxx")]

    finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=BIN)

    assert 2 == finished.returncode, finished.stderr
    assert " belongs to " in finished.stderr
    assert before == installed_plugin(mpi).read_bytes()


@needs_another_mpi
def test_another_mpis_launcher_is_seen() -> None:
    """Each rank would otherwise be alone in its own MPI, or MPICH end it for an internal error."""
    finished = mpirun(2, "places", launcher=OTHER_MPIS[0] / "bin/mpirun")

    assert 0 != finished.code, finished.text
    assert "use the mpirun and the mpi4py of one environment" in finished.stderr, finished.text


def test_mpi_without_threads_is_refused() -> None:
    """The engine calls MPI from a thread of its own."""
    finished = mpirun(2, "wrong_threads", environ=BY_MPI)

    assert 0 != finished.code, finished.text
    assert "MPI_THREAD_MULTIPLE" in finished.stderr, finished.text
    assert "mpi4py.rc.thread_level" in finished.stderr, finished.text


def test_the_mpi_transport_needs_an_mpi_launcher() -> None:
    """Ranks that `ringtune run` has started are no ranks of an MPI."""
    finished = run_job(ringtune("run", "-np", "2", *rank_command("places")), BY_MPI)

    assert 0 != finished.code, finished.text
    assert "start the job with mpirun" in finished.stderr, finished.text


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        ("/nonexistent/plugin.so", "cannot be loaded: .*No such file"),
        ("libm.so.6", "is none: it has no entry ringtune_mpi_plugin"),
    ],
)
def test_the_engine_refuses_what_is_no_plugin(plugin: str, message: str) -> None:
    """The error names the command that builds a plugin."""
    with pytest.raises(ConfigError, match=f"{message}.*build it again with"):
        engine_with(plugin)


def test_the_engine_refuses_the_plugin_of_another_version(mpi: Any, tmp_path: Path) -> None:
    """One that an older ringtune has built may lie in the user's cache folder."""
    sources = shutil.copytree(installed_plugin(mpi).parent, tmp_path / "sources")
    header = sources / "transport/mpi/plugin_abi.h"
    text = header.read_text(encoding="utf-8")
    header.write_text(re.sub(r"(kRingtuneMpiPluginVersion =) \d+;", r"\1 999;", text), encoding="utf-8")
    plugin = tmp_path / "plugin.so"
    flags = ["-std=c++17", "-shared", "-fPIC", "-o", str(plugin)]
    subprocess.run([BIN / "mpicxx", *flags, sources / "mpi_plugin.cpp"], check=True)

    with pytest.raises(ConfigError, match="has version 999 of its interface, this engine needs"):
        engine_with(str(plugin))


def test_the_engine_refuses_a_plugin_whose_mpi_does_not_run(mpi: Any) -> None:
    """Here it was not initialised; had the process another MPI, it would look the same to the plugin."""
    with pytest.raises(ConfigError, match="which is not initialised: this process runs another MPI"):
        engine_with(str(installed_plugin(mpi)))


def engine_with(plugin: str) -> _engine.Engine:
    """Return an engine that is alone in its world."""
    return _engine.Engine(
        rank=0,
        world_size=1,
        hosts=[0],
        segment_fd=_engine.create_segment(1),
        pidfds=[-1],
        pids=[0],
        control_fds=[],
        data_fds=[],
        mpi_plugin=plugin,
        mpi_communicator=0,
        config=engine_config(default_config()),
        stall_warn_s=60.0,
        timeout_s=60.0,
        log_level="warning",
    )
