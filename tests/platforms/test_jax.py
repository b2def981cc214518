# SPDX-License-Identifier: Apache-2.0
"""`ringtune.jax` under the launcher: collectives, trainings against one process, ends, and the tuner."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from ringtune.graph_operations.graph_library import library_folders
from ringtune.graph_operations.jax_op import jax_library
from tests.e2e.documented_commands import blocks_of, script_of
from tests.house.source_tree import REPOSITORY
from tests.integration.jobs import Finished, ringtune, run_job
from tests.integration.standin_libraries import INCLUDES, compile_driver, compile_library, compile_nccl

PAGE = REPOSITORY / "docs" / "howto" / "jax.md"
EXAMPLE = REPOSITORY / "examples" / "jax_digits.py"
PROGRAMS = Path(__file__).resolve().parent / "programs"
WAYS = 10
REPEATING_WAYS = 11


def run_ranks(count: int, name: str, *arguments: str, environ: dict[str, str] | None = None) -> Finished:
    """Run one of the programs on several ranks."""
    command = [sys.executable, str(PROGRAMS / f"{name}.py"), *arguments]
    quiet = {"JAX_PLATFORMS": "cpu", **(environ or {})}
    return run_job(ringtune("run", "-np", str(count), *command), quiet)


@pytest.mark.parametrize("way", ["", "fallback"])
def test_collectives_are_right_under_every_transformation(way: str) -> None:
    """Asynchronous calls and, where their library was not built, calls to Python give the same numbers."""
    finished = run_ranks(2, "jax_collectives", way)

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("right"), finished.text


@pytest.mark.parametrize(
    ("ranks", "way"),
    [(2, ""), pytest.param(3, "", marks=pytest.mark.long), pytest.param(3, "fallback", marks=pytest.mark.long)],
)
def test_collectives_agree_with_one_process_under_every_transformation(ranks: int, way: str) -> None:
    """Values, batches and derivatives are those that JAX finds for the same function of all ranks' arrays."""
    finished = run_ranks(ranks, "jax_transformations", way)

    assert 0 == finished.code, finished.text
    assert ranks == finished.stdout.count("right"), finished.text


def test_trainings_end_with_the_parameters_of_one_process() -> None:
    """Ten programs that a JAX user would write first, on three ranks, the same bits on each."""
    finished = run_ranks(3, "jax_training")

    assert 0 == finished.code, finished.text
    assert 3 * WAYS == finished.stdout.count("is right"), finished.text


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.long)])
def test_programs_end_with_the_results_of_one_process(ranks: int) -> None:
    """Ten programs beyond data-parallel training, with the same bits on all ranks."""
    finished = run_ranks(ranks, "jax_programs")

    assert 0 == finished.code, finished.text
    assert ranks * WAYS == finished.stdout.count("is right"), finished.text


@pytest.mark.parametrize("way", ["", pytest.param("fallback", marks=pytest.mark.long)])
def test_one_name_serves_many_calls_of_a_compiled_function(way: str) -> None:
    """An optimizer steps several models, micro-batches, loops and nested functions: with the results of one process."""
    finished = run_ranks(2, "jax_repeated_names", way)

    assert 0 == finished.code, finished.text
    assert 2 * REPEATING_WAYS == finished.stdout.count("is right"), finished.text


def test_a_function_of_several_devices_is_refused() -> None:
    """Every collective in it is a ConfigError before XLA compiles it, and the way of the page trains."""
    finished = run_ranks(2, "jax_repeated_names", "devices")

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("devices are right"), finished.text


def test_functions_may_differ_between_ranks() -> None:
    """Another order of collectives is no deadlock; other shapes, another world, and a fork are errors with reasons."""
    finished = run_ranks(2, "jax_differences", environ={"RINGTUNE_TIMEOUT_S": "120"})

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("right"), finished.text


@pytest.mark.long
def test_a_rank_that_dies_within_a_step_is_named() -> None:
    """The other rank's step ends with the reason, although more collectives of it would follow."""
    finished = run_ranks(2, "jax_differences", "dead")

    assert 3 == finished.code, finished.text
    assert "rank 1 was lost" in finished.stdout, finished.text


def test_an_exit_waits_for_what_runs() -> None:
    """A program that ends without its last result ends well, and quietly."""
    finished = run_ranks(2, "jax_ends", "unawaited")

    assert 0 == finished.code, finished.text
    assert "" == finished.stderr, finished.text


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("lost", "PeerLostError: rank 1"),
        ("mismatch", "MismatchError: tensor 'allreduce.x' differs between ranks"),
        ("left", "ringtune is not initialized"),
    ],
)
def test_a_failure_reaches_the_program_with_its_reason(way: str, words: str) -> None:
    """The error of a compiled function has the engine's words."""
    finished = run_ranks(2, "jax_ends", way)

    assert words in finished.stdout, finished.text
    assert (3 if way == "lost" else 0) == finished.code, finished.text


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables of `jax_on_streams`, with stand-ins for the driver, for NCCL and for XLA on a GPU."""
    library = jax_library(jax)
    handlers = next(path for folder in library_folders() if (path := folder / library.file_name).is_file())
    driver = compile_driver(tmp_path_factory.mktemp("standin"))
    arguments = [str(PROGRAMS / "xla_streams.cpp"), f"-I{jax.ffi.include_dir()}", *INCLUDES, str(handlers), str(driver)]
    return {
        "STANDIN_DRIVER": str(driver),
        "STANDIN_NCCL": str(compile_nccl(driver)),
        "XLA_STREAMS": str(compile_library(driver.parent / "xla_streams.so", *arguments)),
    }


@pytest.mark.parametrize(
    ("program", "operations"),
    [
        pytest.param("jax_collectives", "host", marks=pytest.mark.long),
        ("jax_collectives", "nccl"),
        ("jax_transformations", "nccl"),
        ("jax_programs", "host"),
        pytest.param("jax_transformations", "host", marks=pytest.mark.long),
        pytest.param("jax_programs", "nccl", marks=pytest.mark.long),
        pytest.param("jax_training", "host", marks=pytest.mark.long),
        pytest.param("jax_training", "nccl", marks=pytest.mark.long),
    ],
)
def test_the_way_of_cuda_gives_the_same_results(streams: dict[str, str], program: str, operations: str) -> None:
    """Calls with a stream, through host memory and by NCCL: late on the stream, with the values of CPUs."""
    environ = {**streams, "RINGTUNE_GPU_OPERATIONS": operations}

    finished = run_ranks(2, "jax_on_streams", program, environ=environ)

    assert 0 == finished.code, finished.text
    assert "right" in finished.stdout, finished.text
    assert 2 == finished.stdout.count(f"by NCCL: {operations == 'nccl'}"), finished.text


@pytest.mark.parametrize(
    ("way", "code", "words"), [("mismatch", 0, "on cuda on rank 0"), ("lost", 3, "PeerLostError: rank 1")]
)
def test_a_failure_on_a_stream_reaches_the_program(streams: dict[str, str], way: str, code: int, words: str) -> None:
    """The call of XLA's that waits ends with the engine's words."""
    finished = run_ranks(2, "jax_on_streams", "jax_ends", way, environ={**streams, "RINGTUNE_GPU_OPERATIONS": "nccl"})

    assert code == finished.code, finished.text
    assert words in finished.text, finished.text


def test_the_tuner_sees_the_steps(tmp_path: Path) -> None:
    """No mark of the user's is needed: with AUTOTUNE=1 the search ends, and its log has samples."""
    log = tmp_path / "tuning.jsonl"
    environ = {"AUTOTUNE": "1", "AUTOTUNE_LOG": str(log), "AUTOTUNE_MAX_SAMPLES": "8", "AUTOTUNE_MAX_SECONDS": "30"}

    finished = run_ranks(2, "jax_ends", "tuned", environ=environ)

    assert 0 == finished.code, finished.text
    assert '"type":"sample"' in log.read_text(encoding="utf-8").replace(" ", ""), finished.text


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    """The page's program learns the sum of eight numbers on two ranks."""
    for block in blocks_of(PAGE):
        if block.duty == "file":
            (tmp_path / block.about).write_text(block.text, encoding="utf-8")
    folder = Path(sys.executable).parent
    environ = {**os.environ, "JAX_PLATFORMS": "cpu", "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    finished = subprocess.run(
        ["bash", "-c", script_of(blocks_of(PAGE), ("platform",))],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )

    assert 0 == finished.returncode, finished.stderr
    assert "loss 0." in finished.stdout, finished.stdout
    assert "on 2 ranks" in finished.stdout, finished.stdout


def test_the_example_learns_the_digits() -> None:
    """Two ranks recognize most digits that they have not trained on."""
    finished = run_job(ringtune("run", "-np", "2", sys.executable, str(EXAMPLE)), {"JAX_PLATFORMS": "cpu"})

    assert 0 == finished.code, finished.text
    accuracy = float(finished.stdout.partition("accuracy ")[2].split()[0])
    assert accuracy > 0.85, finished.text
