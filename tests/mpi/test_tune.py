# SPDX-License-Identifier: Apache-2.0
"""Tuning the MPI of this environment: commands are launched under it, and it reads the files that are written."""

import signal
from pathlib import Path

import pytest

from ringtune.tuner import Config, Value, read_log
from ringtune.tuning.command.atomic_file import replace_file
from ringtune.tuning.command.engines import find_engine
from tests.integration.jobs import SHARED_MEMORY, ringtune, run_job, started, wait_for_line
from tests.mpi.launching import BIN, IS_OPEN_MPI, OPEN_MPI, rank_command

NAME = "openmpi" if IS_OPEN_MPI else "mpich"
SMALL, LARGE = 4, 65536
"""Elements of allreduces on either side of the change-over at 64 KiB."""
OPEN_MPI_ALONE = pytest.mark.skipif(not IS_OPEN_MPI, reason="of Open MPI's files; the other environment has it")
MPICH_ALONE = pytest.mark.skipif(IS_OPEN_MPI, reason="of MPICH's variables; the other environment has it")


def mpi_command(ranks: int, script: str, *arguments: str) -> list[str]:
    """Return the command line of a program of this folder under the MPI."""
    return [str(BIN / "mpirun"), "-n", str(ranks), *rank_command(script, *arguments)]


def write_winner(folder: Path, values: dict[str, Value]) -> dict[str, Path]:
    """Write a config as the winner's files; return them by name."""
    engine = find_engine(NAME)
    config = engine.space({}).validate(engine.baseline().replace(values))
    files = {}
    for file in engine.winner_files(Config(config), folder, "a test"):
        replace_file(folder / file.name, file.content)
        files[file.name] = folder / file.name
    return files


def test_an_mpi_is_tuned(tmp_path: Path) -> None:
    """Every launch of baseline, search and test is measured, whatever its outcome; no process of a launch is left."""
    files = ["--output", str(tmp_path), "--log", str(tmp_path / "log")]
    quick = ["--max-samples", "1", "--pairs", "2", "--trial-timeout-s", "60"]
    command = mpi_command(2, "allreduce_steps", str(256 * 1024))

    finished = run_job(ringtune("tune", "--target", NAME, *files, *quick, "--", *command), OPEN_MPI)

    assert 0 == finished.code, finished.text
    assert "baseline: the defaults, " in finished.stdout
    (run,) = read_log(tmp_path / "log").runs
    assert run.result is not None
    assert run.run is not None
    assert NAME == run.run.key["target"]
    assert {1} == {sample.trial_id for sample in run.samples if sample.phase == "search"}
    assert not list((tmp_path).glob(".trial*"))
    assert 15 == run.samples[0].steps
    assert all(sample.valid for sample in run.samples if sample.phase == "baseline")


def test_an_mpi_job_that_is_ended_leaves_nothing(tmp_path: Path) -> None:
    """Ranks, which launchers put into groups of their own, and their shared memory are gone."""
    before = set(SHARED_MEMORY.iterdir())
    command = mpi_command(2, "sleeper", str(tmp_path / "segments"))
    tune = ringtune("tune", "--target", NAME, "--output", str(tmp_path / "out"), "--", *command)

    with started(tune, OPEN_MPI) as job:
        wait_for_line(tmp_path / "segments")
        job.process.send_signal(signal.SIGTERM)
        finished = job.wait()

    assert 128 + signal.SIGTERM == finished.code, finished.text
    _, *used = (tmp_path / "segments").read_text(encoding="utf-8").splitlines()
    made = {Path(line) for line in used} - before
    assert made or IS_OPEN_MPI, "which has its files elsewhere"
    assert [] == [path for path in made if path.exists()]


@OPEN_MPI_ALONE
def test_open_mpi_reads_the_parameters_that_are_written(tmp_path: Path) -> None:
    """`ompi_info` names the file as the source of each."""
    files = write_winner(tmp_path, {"large_algorithm": "ring", "eager_limit_bytes": 8192})
    parameters = files["mca-params.conf"]

    command = [str(BIN / "ompi_info"), "--param", "all", "all", "--level", "9", "--parsable"]
    finished = run_job(command, {**OPEN_MPI, "OMPI_MCA_mca_base_param_files": str(parameters)})

    assert 0 == finished.code, finished.text
    expected = {
        "mca:btl:sm:param:btl_sm_eager_limit": "8192",
        "mca:coll:tuned:param:coll_tuned_use_dynamic_rules": "true",
        "mca:coll:tuned:param:coll_tuned_dynamic_rules_filename": str(files["allreduce-rules.conf"]),
    }
    lines = finished.stdout.splitlines()
    for name, value in expected.items():
        assert f"{name}:value:{value}" in lines or f'{name}:value:"{value}"' in lines, name
        assert any(line.startswith(f"{name}:source:") and str(parameters) in line for line in lines), name


@OPEN_MPI_ALONE
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"eager_limit_bytes": 4096}, "1 1"),
        ({"large_algorithm": "ring"}, "1 2"),
        ({"small_algorithm": "ring", "large_algorithm": "basic_linear"}, "2 1"),
    ],
)
def test_open_mpi_runs_the_algorithm_that_is_written(values: dict[str, Value], expected: str, tmp_path: Path) -> None:
    """Open MPI adds in the order of the written algorithm, on either side of the change-over."""
    files = write_winner(tmp_path, values)
    environ = {**OPEN_MPI, "OMPI_MCA_mca_base_param_files": str(files["mca-params.conf"])}

    finished = run_job(mpi_command(4, "order_of_sums", str(SMALL), str(LARGE)), environ)

    assert 0 == finished.code, finished.text
    assert f"different results: {expected}\n" in finished.stdout


@MPICH_ALONE
def test_mpich_reads_the_variables_that_are_written(tmp_path: Path) -> None:
    """`mpivars` shows the values in force, of which algorithms are numbers."""
    values: dict[str, Value] = {"algorithm": "tree", "tree_chunk_bytes": 8192, "single_copy_from_bytes": 2048}
    files = write_winner(tmp_path, values)

    shell = ["sh", "-c", f". {files['mpich.sh']} && {BIN / 'mpivars'}"]
    before, after = (
        _control_variables(run_job(command).stdout) for command in ([*shell[:2], shell[2].split("&& ")[1]], shell)
    )

    assert "0" == before["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"] != after["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"]
    assert ("1", "0") == tuple(found["MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE"] for found in (before, after))
    assert "8192" == after["MPIR_CVAR_ALLREDUCE_TREE_PIPELINE_CHUNK_SIZE"]
    assert "2048" == after["MPIR_CVAR_CH4_IPC_CMA_P2P_THRESHOLD"]


@MPICH_ALONE
def test_mpich_runs_the_algorithm_that_is_written(tmp_path: Path) -> None:
    """MPICH adds in the order of the written algorithm."""
    command = mpi_command(4, "order_of_sums", str(LARGE))
    ring = write_winner(tmp_path, {"algorithm": "ring"})["mpich.sh"]

    default = run_job(command)
    written = run_job(["sh", "-c", f'. {ring} && exec "$@"', "sh", *command])

    assert "different results: 1\n" in default.stdout, default.text
    assert "different results: 2\n" in written.stdout, written.text


def test_every_variable_of_an_mpi_is_one_that_it_knows() -> None:
    """A name with a typing error in it would be tuned without any effect."""
    tool = ["ompi_info", "--all", "--level", "9", "--parsable"] if IS_OPEN_MPI else ["mpivars"]
    text = run_job([str(BIN / tool[0]), *tool[1:]], OPEN_MPI).stdout
    engine = find_engine(NAME)
    owned = {variable for variables in engine.owned.values() for variable in variables}
    names = owned | {variable for knob in engine.knobs for variable in knob.variables}

    unknown = [variable for variable in names if variable.removeprefix("OMPI_MCA_") not in text]

    assert len(names) >= 4
    assert [] == unknown


def _control_variables(text: str) -> dict[str, str]:
    """Return the values of `mpivars` for each control variable."""
    pairs = (line.split("\t")[1].partition("=") for line in text.splitlines() if line.startswith("\tMPIR_CVAR_"))
    return {name.strip(): value for name, sign, value in pairs if sign}
