# SPDX-License-Identifier: Apache-2.0
"""The wheel in an empty environment: jobs, service and plugins run from another folder, without a compiler."""

import ctypes
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ringtune import __version__
from tests.mpi.launching import BY_MPI, OPEN_MPI
from tests.package.distributions import DIST, GLIBC
from tests.package.environments import PROGRAMS, Environment

START_LIMIT_S = 120.0
COMPILER = shutil.which("c++")
RANK_PROGRAMS = PROGRAMS.parents[1] / "integration" / "programs"

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no c++, which compiles plugins where they are needed")


def test_the_version_is_the_one_of_the_sources(installed: Environment) -> None:
    """In the command, the metadata and the module."""
    program = "import importlib.metadata as m, ringtune; print(m.version('ringtune'), ringtune.__version__)"

    assert f"{__version__}\n" == installed.run(installed.ringtune, "--version").stdout
    assert f"{__version__} {__version__}\n" == installed.run(installed.python, "-c", program).stdout


def test_doctor_finds_an_engine_that_loads(installed: Environment) -> None:
    """The engine loads without a compiler."""
    found = installed.run(installed.ringtune, "doctor")

    assert 0 == found.code, found.text
    assert re.search(r"engine\s.*loads; allreduce algorithms:", found.stdout), found.text
    assert re.search(r"g\+\+\s.*not found", found.stdout), found.text
    assert __version__ in found.stdout


def test_a_job_of_two_ranks_tunes_itself_from_another_folder(installed: Environment) -> None:
    """The ranks use the installed package, agree on parameters, and leave a log that can be reviewed."""
    log = installed.folder / "tuning.jsonl"
    job = [installed.ringtune, "run", "-np", "2", installed.python, str(PROGRAMS / "train.py"), "60"]

    trained = installed.run(*job, AUTOTUNE="1", AUTOTUNE_LOG=str(log), AUTOTUNE_MAX_SECONDS="15")
    review = installed.run(installed.ringtune, "review", str(log), "--html", "review.html")

    assert 0 == trained.code, trained.text
    places = re.findall(r"rank (\d) of 2 trained with (\S+)", trained.stdout)
    assert ["0", "1"] == sorted(rank for rank, _ in places), trained.text
    assert all(Path(file).is_relative_to(installed.packages) for _, file in places), places
    assert 0 == review.code, review.text
    assert "<html" in (installed.folder / "review.html").read_text(encoding="utf-8")


@pytest.fixture
def service(installed: Environment) -> Iterator[str]:
    """Run `ringtune serve` of the environment; yields its address."""
    command = [installed.ringtune, "serve", "--port", "0", "--database-url", "sqlite:///service.db"]
    environ = installed.variables(has_compilers=False)
    with subprocess.Popen(
        command, cwd=installed.folder, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        output = ""
        try:
            for line in process.stdout:
                output += line
                if found := re.search(r"listening on (http://\S+),", line):
                    yield found[1]
                    return
            pytest.fail(f"the service did not start:\n{output}")
        finally:
            process.terminate()


def test_the_service_answers_with_its_pages(service: str) -> None:
    """The API, the database's tables, templates and static files are all in the wheel."""
    with httpx.Client(base_url=service, timeout=START_LIMIT_S, follow_redirects=True) as client:
        page = client.get("/")
        style = re.search(r'href="([^"]+\.css[^"]*)"', page.text)

        assert 200 == client.get("/healthz").status_code
        assert 200 == client.get("/v1/studies").status_code
        assert 200 == page.status_code
        assert style is not None, page.text
        assert 200 == client.get(style[1]).status_code


def test_the_plugin_for_nccl_can_be_loaded(installed: Environment) -> None:
    """`ringtune nccl-plugin` prints its file, which has the tables that NCCL looks for."""
    found = installed.run(installed.ringtune, "nccl-plugin")

    assert 0 == found.code, found.text
    library = ctypes.CDLL(found.stdout.strip())
    assert hasattr(library, "ncclTunerPlugin_v4")
    assert hasattr(library, "ncclTunerPlugin_v5")


@needs_compiler
def test_a_foreign_cxx_library_does_not_reach_the_engine(installed: Environment, tmp_path: Path) -> None:
    """The engine ignores GCC's library, as torch for CUDA brings it, and one of the kind that it was built with."""
    source = RANK_PROGRAMS / "foreign_cxx_library.cpp"
    gnu, llvm = tmp_path / "libgnu.so", tmp_path / "libllvm.so"
    options = ["-std=c++20", "-O1", "-shared", "-fPIC"]
    subprocess.run([str(COMPILER), *options, str(source), "-o", str(gnu)], check=True)
    target = f"{platform.machine()}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"  # as the wheel's
    zig = [sys.executable, "-m", "ziglang", "c++", "-target", target]
    subprocess.run([*zig, *options, str(PROGRAMS / "foreign_llvm_library.cpp"), "-o", str(llvm)], check=True)

    for library in (gnu, llvm):
        joined = installed.run(installed.python, str(RANK_PROGRAMS / "averages_beside_library.py"), str(library))

        assert (0, "[1.0, 1.0, 1.0]\n") == (joined.code, joined.stdout), joined.text


def test_the_command_horovodrun_comes_with_its_extra_alone(installed: Environment) -> None:
    """The second wheel in `dist` brings `horovodrun`, which starts a job as `ringtune run` does."""
    command = installed.root / "bin" / "horovodrun"
    was_there = command.exists()

    installed.install("ringtune[horovod-compat]", options=("--no-index", "--find-links", str(DIST)))
    started = installed.run(str(command), "-np", "2", installed.python, "-c", "print('a rank')")

    assert not was_there
    assert 0 == started.code, started.text
    assert 2 == started.stdout.count("a rank"), started.text


@needs_compiler
@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_the_plugin_for_an_mpi_is_built_and_carries_a_job(installed: Environment, vendor: str) -> None:
    """The sources in the wheel are compiled by the wrapper of the installed MPI."""
    installed.install("mpi4py>=4", vendor)
    rank = [installed.python, str(PROGRAMS / "place.py")]
    mpirun = str(installed.root / "bin" / "mpirun")

    built = installed.run(installed.python, "-m", "ringtune.mpi_plugin", has_compilers=True)
    summed = installed.run(mpirun, "-n", "2", *rank, has_compilers=True, **BY_MPI, **OPEN_MPI)
    removed = installed.run(installed.python, "-m", "pip", "uninstall", "--yes", vendor)

    assert 0 == built.code, built.text
    assert Path(built.stdout.strip()).is_relative_to(installed.packages), built.text
    assert 0 == summed.code, summed.text
    assert {f"rank {rank}: sum 3.0 by mpi" for rank in range(2)} <= set(summed.stdout.splitlines()), summed.text
    assert 0 == removed.code, removed.text


@needs_compiler
def test_the_operation_for_tensorflow_is_built_and_averages(with_tensorflow: Environment) -> None:
    """The sources in the wheel are compiled against the installed TensorFlow."""
    job = [with_tensorflow.python, "-m", "ringtune.cli", "run", "-np", "2", with_tensorflow.python]

    built = with_tensorflow.run(with_tensorflow.python, "-m", "ringtune.tensorflow_op", has_compilers=True)
    averaged = with_tensorflow.run(*job, str(PROGRAMS / "graph.py"), TF_CPP_MIN_LOG_LEVEL="3")

    assert 0 == built.code, built.text
    assert str(with_tensorflow.packages) in built.stdout, built.text
    assert 0 == averaged.code, averaged.text
    assert 2 == averaged.stdout.count("of 2 is right"), averaged.text


def test_uninstalling_leaves_what_was_built_there_alone(installed: Environment) -> None:
    """The documentation names the rest: plugins in the package's folder, and no other file of the package."""
    removed = installed.run(installed.python, "-m", "pip", "uninstall", "--yes", "ringtune")

    files = [path for name in ("ringtune", "ringtune-*") for path in installed.packages.glob(f"{name}/**/*")]
    left = [path for path in files if path.is_file() and path.suffix != ".pyc"]
    assert 0 == removed.code, removed.text
    assert [] == [str(path) for path in left if path.parent.name != "mpi"]
