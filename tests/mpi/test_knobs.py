# SPDX-License-Identifier: Apache-2.0
"""Every knob of this environment's MPI acts: another value moves data in another way, seen from outside of the MPI."""

import re
from pathlib import Path

import pytest

from ringtune.tuner import Config, Value
from ringtune.tuning.command.atomic_file import replace_file
from ringtune.tuning.command.engines import find_engine
from tests.integration.hosts import hosts, needs_hosts
from tests.integration.jobs import run_job
from tests.integration.standin_libraries import compile_library
from tests.mpi.launching import BIN, IS_OPEN_MPI, OPEN_MPI, PROGRAMS, mpirun_on, rank_command

ENGINE = find_engine("openmpi" if IS_OPEN_MPI else "mpich")
SMALL, MIDDLE, LARGE = 16, 4096, 300_000
"""Elements: 64 bytes, 16 KiB and 1.2 MB."""
ABOVE_CHANGE_OVER = 65536  # elements; Open MPI's own choice for them is no ring, as it is for more
HAN = re.compile(r"selecting +han, priority +[0-9]+, (\w+)")
VERBOSE = {"OMPI_MCA_coll_base_verbose": "10"}
OPEN_MPI_ALONE = pytest.mark.skipif(not IS_OPEN_MPI, reason="of Open MPI's knobs; the other environment has it")
MPICH_ALONE = pytest.mark.skipif(IS_OPEN_MPI, reason="of MPICH's knobs; the other environment has it")


@pytest.fixture(scope="module", name="counter")
def fixture_counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the library that counts calls."""
    return compile_library(
        tmp_path_factory.mktemp("counter") / "call_counter.so", str(PROGRAMS / "call_counter.cpp"), "-ldl"
    )


def environment(values: dict[str, Value], folder: Path) -> dict[str, str]:
    """Return the variables of a trial of a config, whose files are written."""
    config = Config(ENGINE.space({}).validate(ENGINE.baseline().replace(values)))
    for file in ENGINE.trial_files(config, folder, ""):
        replace_file(folder / file.name, file.content)
    return ENGINE.variables(config, folder)


def calls(values: dict[str, Value], elements: int, counter: Path, *, ranks: int = 4) -> tuple[str, int, int, bool]:
    """Return digest of the sums, copies, copied bytes, and whether a waiting rank yields, of a job with a config."""
    command = [str(BIN / "mpirun"), "-n", str(ranks), *rank_command("message_calls", str(elements))]
    environ = {**OPEN_MPI, **environment(values, counter.parent), "LD_PRELOAD": str(counter)}

    finished = run_job(command, environ)

    assert 0 == finished.code, finished.text
    digest, copies, copied, yields = finished.stdout.partition("calls: ")[2].split()
    return digest, int(copies), int(copied), yields == "True"


def test_every_algorithm_is_one_of_its_own(counter: Path) -> None:
    """No two of them add in one order and copy as much; segments tell the segmented ring from the other."""
    knob = next(knob for knob in ENGINE.knobs if knob.name in {"algorithm", "large_algorithm"})
    names = [name for name in knob.words if isinstance(name, str)]
    pair = ("small_algorithm", "large_algorithm") if IS_OPEN_MPI else ("algorithm",)
    segments: dict[str, Value] = {"segment_bytes": 65536} if IS_OPEN_MPI else {}

    seen = {
        name: tuple(
            calls({**dict.fromkeys(pair, name), **segments}, elements, counter, ranks=6)[:3]
            for elements in (SMALL, LARGE)
        )
        for name in names
    }

    assert len(names) == len(set(seen.values())), seen


@OPEN_MPI_ALONE
def test_open_mpi_copies_at_once_above_the_eager_limit(counter: Path) -> None:
    """A message of 16 KiB fits a limit of 32 KiB, and is read out of the sender's memory under a lower one."""
    above, below = (calls({"eager_limit_bytes": limit}, MIDDLE, counter)[1] for limit in (1024, 32768))

    assert 0 == below < above


@OPEN_MPI_ALONE
def test_open_mpi_cuts_segments_and_changes_over(counter: Path) -> None:
    """Smaller segments are more copies; below its size the large algorithm is not used."""
    ring: dict[str, Value] = {"small_algorithm": "basic_linear", "large_algorithm": "segmented_ring"}
    fine, coarse, linear = (
        calls({**ring, **more}, LARGE, counter)[1]
        for more in ({"segment_bytes": 4096}, {"segment_bytes": 1024**2}, {"large_from_bytes": 4 * 1024**2})
    )

    assert fine > coarse > linear


@OPEN_MPI_ALONE
def test_open_mpi_yields_where_it_is_told_to(counter: Path) -> None:
    """A rank that waits for another gives its core away, or never does."""
    assert [True, False] == [calls({"yield_when_idle": word}, SMALL, counter, ranks=2)[3] for word in ("on", "off")]


@OPEN_MPI_ALONE
@needs_hosts
def test_open_mpis_rules_are_asked_on_several_hosts(tmp_path: Path) -> None:
    """`coll/han` would take an allreduce there before `coll/tuned`; with rules, and by `hierarchy`, it is left out."""
    configs: list[dict[str, Value]] = [{"large_algorithm": "ring"}, {"hierarchy": "off"}]
    with hosts(2) as made:
        ring, plain = (
            mpirun_on(
                made,
                2,
                tmp_path,
                "order_of_sums",
                str(ABOVE_CHANGE_OVER),
                environ={**environment(config, tmp_path), **VERBOSE},
            )
            for config in configs
        )

    assert (0, 0) == (ring.code, plain.code), ring.text
    assert "different results: 2\n" in ring.stdout, ring.text
    assert "different results: 1\n" in plain.stdout, plain.text
    assert [{"Disabled"}, {"Disabled"}] == [set(HAN.findall(finished.text)) for finished in (ring, plain)]


@MPICH_ALONE
def test_mpich_cuts_chunks_of_a_tree_and_copies_at_once(counter: Path) -> None:
    """Smaller chunks are more copies; messages below the threshold of single copies are none."""
    fine, coarse = (
        calls({"algorithm": "tree", "tree_chunk_bytes": chunk}, LARGE, counter)[1] for chunk in (65536, 4 * 1024**2)
    )
    above, below = (calls({"single_copy_from_bytes": limit}, 4 * MIDDLE, counter)[2] for limit in (1024, 16 * 1024**2))

    assert fine > coarse
    assert above > below
