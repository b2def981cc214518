# SPDX-License-Identifier: Apache-2.0
"""The collectives of real processes, however they were launched."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.jobs import PROGRAMS, launched, program, ranks, run_job, torchrun


@pytest.mark.parametrize(
    ("count", "allreduces"),
    [(2, 4_000), (3, 4_000), *(pytest.param(n, 100_000, marks=pytest.mark.long) for n in (2, 3, 4))],
)
def test_no_element_is_wrong_while_the_config_switches(
    count: int, allreduces: int, record_property: Callable[[str, object], None]
) -> None:
    """Every allreduce of a random shape is right although all knobs change every ten cycles."""
    finished = run_job(ranks(count, "switching", str(allreduces)))

    assert 0 == finished.code, finished.text
    assert count == finished.stdout.count("all right"), finished.text
    switches = int(finished.stdout.split("switches=")[1].split()[0])
    record_property("allreduces", allreduces)
    record_property("config_switches", switches)
    assert switches > allreduces // 1_000, finished.text


def test_torchrun_starts_ranks() -> None:
    """An unchanged script runs under torchrun, by way of its store."""
    command = Path(sys.executable).parent / "torchrun"

    finished = run_job([str(command), "--standalone", "--nproc-per-node=2", str(PROGRAMS / "collectives.py")])

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("of 2 is right"), finished.text


@pytest.mark.parametrize("options", [(), ("without", "get_group_store")], ids=["now", "older"])
def test_a_process_group_brings_ranks_together(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A script that has initialised torch's process group meets through its store, in older versions of torch too."""
    finished = run_job(torchrun(tmp_path / "python", str(PROGRAMS / "process_group.py"), *options))

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("sum 3.0"), finished.text


def test_a_script_alone_is_a_world_of_one() -> None:
    """Without a launcher the same script trains alone."""
    finished = run_job(program("collectives"))

    assert 0 == finished.code, finished.text
    assert "rank 0 of 1 is right" in finished.stdout


def test_mismatches_are_errors_on_every_rank_and_the_engine_stays_usable() -> None:
    """Different shapes, dtypes, operations or roots fail on every rank for that tensor alone."""
    finished = run_job(ranks(2, "mismatch"))

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("still usable"), finished.text


def test_init_and_shutdown_repeat() -> None:
    """A process may join and leave twenty times, without leaking descriptors or threads."""
    finished = run_job(launched(2, "rejoin"))

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("20 times"), finished.text
