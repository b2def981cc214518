# SPDX-License-Identifier: Apache-2.0
"""`ringtune bench` for real: programs compiled, contestants launched, a table and a file. No speed is asserted."""

import json
import os
from pathlib import Path

import pytest

from ringtune.bench.programs import LIMIT, built
from tests.integration.jobs import ringtune, run_job

SIZES = (1024, 256 << 10)
DEADLINE_S = 150.0


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A home of the test's own, so that programs are compiled."""
    return {"HOME": str(tmp_path)}


def test_all_layers_and_a_peer_are_measured(tmp_path: Path, home: dict[str, str]) -> None:
    """Each way has one row per size and round, with times that can be."""
    file = tmp_path / "rows.json"
    options = ["-np", "2", "--sizes", "1KiB,256KiB", "--rounds", "2", "--json", str(file)]

    finished = run_job(ringtune("bench", "--against", "gloo", *options), home, deadline_s=DEADLINE_S)

    assert 0 == finished.code, finished.text
    written = json.loads(file.read_text(encoding="utf-8"))
    expected = {
        (number, way, size)
        for number in (0, 1)
        for way in ("registered", "staged", "collective", "engine", "gloo")
        for size in SIZES
    }
    assert expected == {(row["round"], row["way"], row["bytes"]) for row in written["rows"]}
    assert len(expected) == len(written["rows"])
    assert all(0 < row["us_median"] <= row["us_p99"] and 2 == row["ranks"] for row in written["rows"])
    assert "256 KiB" in finished.stdout
    assert "÷ best peer" in finished.stdout


def test_peers_that_are_not_there_are_reported(tmp_path: Path, home: dict[str, str]) -> None:
    """On stderr, and in the file; the rest is measured."""
    file = tmp_path / "rows.json"
    options = ["--sizes", "4KiB", "--rounds", "1", "--environments", str(tmp_path), "--json", str(file)]

    finished = run_job(ringtune("bench", "--against", "mpich", *options), home, deadline_s=DEADLINE_S)

    assert 0 == finished.code, finished.text
    assert "mpich is not measured: there is no" in finished.stderr
    written = json.loads(file.read_text(encoding="utf-8"))
    assert 1 == len(written["not_measured"])
    assert {"registered", "staged", "collective", "engine"} == {row["way"] for row in written["rows"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--against", "nccl"], "--against nccl: not known; known are mpich, openmpi, impi, gloo, and none"),
        (["--sizes", "1KiB,lots"], "--sizes '1KiB,lots': lots is no size; give sizes such as 1KiB,1MiB"),
        (["--sizes", "7"], "--sizes: 7 bytes are no whole number of float32"),
        (["-np", "1"], "-np 1: an allreduce has at least 2 ranks"),
    ],
)
def test_wrong_arguments_are_refused(options: list[str], message: str) -> None:
    """With exit code 2 and one paragraph."""
    finished = run_job(ringtune("bench", *options))

    assert 2 == finished.code, finished.text
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr


# Chunks that are full, cut short, of one element, and of no whole number of cache lines; more than a stage's slots.
ODD_SIZES = (4, 60, 1020, 10_000, (256 << 10) - 4, (256 << 10) + 4, 4_000_000, 4_100_004)


@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
def test_the_limit_computes_sums(ranks: int) -> None:
    """It checks itself, at sizes that leave blocks and chunks uneven, and ends with 0 only where all sums are right."""
    program = built(LIMIT, os.environ.get("CXX", "c++"), os.environ)

    finished = run_job([str(program), str(ranks), "0.1", "100", "1", *map(str, ODD_SIZES)])

    assert 0 == finished.code, finished.text
    measured = [(row["way"], row["bytes"]) for row in map(json.loads, finished.stdout.splitlines())]
    assert [(way, size) for size in ODD_SIZES for way in ("registered", "staged")] == measured
