# SPDX-License-Identifier: Apache-2.0
"""`ringtune bench` for real: programs compiled, contestants launched, a table and a file. No speed is asserted."""

import json
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ringtune.measuring.bench.programs import LIMIT, built
from ringtune.measuring.bench.timing import Scheme
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient
from tests.integration.forked_services import ringtune_words
from tests.integration.jobs import Finished, ringtune, run_job

SIZES = (1024, 1 << 20)
COLLECTIVE_WAYS = ("collective", "collective, registered")
ENGINE_WAYS = ("engine", "engine, polled", "engine, polled in steps")
SET_WAYS = tuple(way.replace("engine", "engine as set") for way in ENGINE_WAYS)
# Gradients of no whole number of cache lines, and large ones between them.
WORKLOAD: dict[str, Any] = {
    "name": "small",
    "dtype": "float32",
    "tensors": [{"name": f"layer.{n}", "shape": [1 + n % 3, 1 + 1009 * (n % 5)]} for n in range(40)],
}
STEP_BYTES = 4 * sum(math.prod(tensor["shape"]) for tensor in WORKLOAD["tensors"])
DEADLINE_S = 540.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A home of these tests' own, so that programs are compiled, once."""
    return {"HOME": str(tmp_path_factory.mktemp("home"))}


@dataclass(frozen=True)
class Measured:
    """One whole run: its output, and the file that it wrote."""

    finished: Finished
    written: dict[str, Any]

    def rows_of(self, workload: str) -> list[dict[str, Any]]:
        """Return the rows of a workload, or those of single allreduces for no name."""
        return [row for row in self.written["rows"] if row["workload"] == workload]


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of gradients."""
    path = tmp_path_factory.mktemp("workload") / "small.json"
    path.write_text(json.dumps(WORKLOAD), encoding="utf-8")
    return path


def stand_in_for_horovod(folder: Path) -> dict[str, str]:
    """Lay this environment under another path, with a horovodrun, and a package of Horovod's names, this engine's own.

    Returns:
        Variables with which the package is found.
    """
    package, programs = folder / "packages" / "horovod", folder / "bin"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "torch.py").write_text("from ringtune.torch import *\n", encoding="utf-8")
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    for shared in ("pyvenv.cfg", "lib"):
        (folder / shared).symlink_to(Path(sys.prefix) / shared)
    launcher = programs / "horovodrun"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m ringtune.cli run "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    return {"PYTHONPATH": str(package.parent)}


@pytest.fixture(scope="module")
def measured(home: dict[str, str], workload: Path, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """One run with sizes, a workload, settings, two peers and a trace."""
    folder = tmp_path_factory.mktemp("measured")
    variables = stand_in_for_horovod(folder)
    options = ["--against", "gloo,horovod", "--sizes", "1KiB,1MiB", "--workload", workload, "--rounds", "1", "--trace"]
    options += ["--set", "RINGTUNE_FUSION_BYTES=64KiB", "--json", folder / "rows.json"]
    command = [str(folder / "bin" / "python"), "-m", "ringtune.cli", "bench", *map(str, options)]

    finished = run_job(command, {**home, **variables}, deadline_s=DEADLINE_S)

    assert 0 == finished.code, finished.text
    return Measured(finished, json.loads((folder / "rows.json").read_text(encoding="utf-8")))


def test_all_layers_and_peers_are_measured(measured: Measured) -> None:
    """Each way has one row per size, with times that can be."""
    rows = measured.rows_of("")

    ways = ("registered", "staged", *COLLECTIVE_WAYS, *ENGINE_WAYS, *SET_WAYS, "gloo", "horovod")
    assert {(way, size) for way in ways for size in SIZES} == {(row["way"], row["bytes"]) for row in rows}
    assert len(ways) * len(SIZES) == len(rows)
    assert all(0 < row["us_median"] <= row["us_p99"] and 2 == row["ranks"] for row in rows)
    assert "1 MiB" in measured.finished.stdout
    assert "÷ best peer" in measured.finished.stdout


def test_steps_of_gradients_are_measured(measured: Measured) -> None:
    """In every way, with both kinds of memory, and under settings; a step of Horovod's calls is one way."""
    rows, written = measured.rows_of("small"), measured.written

    ours = {f"{contestant}{memory}" for contestant in ("engine", "engine as set") for memory in ("", ", registered")}
    peers = {"horovod", *(f"gloo, {way}" for way in ("one by one", "at once", "packed", "flat"))}
    assert {"registered", "staged", *COLLECTIVE_WAYS, *ours, *peers} == {row["way"] for row in rows}
    assert {(STEP_BYTES, 2)} == {(row["bytes"], row["ranks"]) for row in rows}
    compared = {summary["way"]: summary for summary in written["summaries"] if summary["workload"] == "small"}
    assert compared["engine, registered"]["to_limit"]["median"] == pytest.approx(
        compared["engine, registered"]["us_median"] / compared["registered"]["us_median"]
    )
    assert {"RINGTUNE_FUSION_BYTES": "64KiB"} == written["settings"]
    assert "steps of float32 gradients" in measured.finished.stdout


def test_a_trace_shows_where_the_time_goes(measured: Measured) -> None:
    """Lap by lap, of calls and of steps, in both kinds of memory; the laps are those of the way that each takes."""
    traces = measured.written["traces"]

    subjects = [("", SIZES[0]), ("", SIZES[1]), ("small", STEP_BYTES)]
    expected = [(*subject, way) for subject in subjects for way in ("ordinary", "registered")]
    assert "where the time goes" in measured.finished.stdout
    assert expected == [(trace["workload"], trace["bytes"], trace["way"]) for trace in traces]
    laps = {(trace["bytes"], trace["way"]): {lap for lap, us in trace["us"].items() if us > 0} for trace in traces}
    always = {"elsewhere", "request", "negotiation", "reduce", "completion"}
    assert always | {"post", "await_posts"} == laps[SIZES[0], "ordinary"] == laps[SIZES[0], "registered"]
    staged = {"copy_in", "await_staged", "await_reduced", "copy_out"}
    assert always | staged <= laps[SIZES[1], "ordinary"]
    assert not {"post", "await_posts"} & laps[SIZES[1], "registered"]


def test_ranks_that_share_no_memory_have_no_registered_way(
    tmp_path: Path, home: dict[str, str], workload: Path
) -> None:
    """Each is a host of its own then; the rest is measured."""
    file = tmp_path / "rows.json"
    options = ["--workload", str(workload), "--set", "RINGTUNE_TRANSPORT=tcp", "--rounds", "1", "--json", str(file)]

    finished = run_job(ringtune("bench", "--against", "none", *options), home, deadline_s=DEADLINE_S)

    assert 0 == finished.code, finished.text
    ways = [row["way"] for row in json.loads(file.read_text(encoding="utf-8"))["rows"]]
    assert {"registered", "staged", *COLLECTIVE_WAYS, "engine", "engine, registered", "engine as set"} == set(ways)


def test_a_setting_that_the_engine_refuses_is_reported(tmp_path: Path, home: dict[str, str], workload: Path) -> None:
    """In the engine's words: it had its chance to read the setting."""
    options = ["--workload", str(workload), "--set", "RINGTUNE_FUSION_BYTES=lots", "--rounds", "1"]

    finished = run_job(ringtune("bench", "--against", "none", *options), home, deadline_s=DEADLINE_S)

    assert 1 == finished.code, finished.text
    assert "engine as set failed" in finished.stderr
    assert "RINGTUNE_FUSION_BYTES" in finished.stderr


def test_peers_that_are_not_there_are_reported(tmp_path: Path, home: dict[str, str]) -> None:
    """On stderr, and in the file; the rest is measured, once in each round."""
    file = tmp_path / "rows.json"
    options = ["--sizes", "4KiB", "--rounds", "2", "--environments", str(tmp_path), "--json", str(file)]

    finished = run_job(ringtune("bench", "--against", "mpich", *options), home, deadline_s=DEADLINE_S)

    assert 0 == finished.code, finished.text
    assert "mpich is not measured: there is no" in finished.stderr
    written = json.loads(file.read_text(encoding="utf-8"))
    assert 1 == len(written["not_measured"])
    expected = {(number, way) for number in (0, 1) for way in ("registered", "staged", *COLLECTIVE_WAYS, *ENGINE_WAYS)}
    assert expected == {(row["round"], row["way"]) for row in written["rows"]}
    assert len(expected) == len(written["rows"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--against", "nccl"], "--against nccl: not known; known are mpich, openmpi, impi, gloo, horovod,"),
        (["--sizes", "1KiB,lots"], "--sizes '1KiB,lots': lots is no size; give sizes such as 1KiB,1MiB"),
        (["--sizes", "7"], "--sizes: 7 bytes are no whole number of float32"),
        (["-np", "1"], "-np 1: an allreduce has at least 2 ranks"),
        (["--workload", "missing.json"], "--workload missing.json cannot be read (No such file or directory)"),
        (["--set", "cycle_ms=1"], "--set cycle_ms=1: give a variable of the engine's"),
    ],
)
def test_wrong_arguments_are_refused(options: list[str], message: str) -> None:
    """A wrong argument ends with exit code 2 and one paragraph."""
    finished = run_job(ringtune_words("bench", *options))

    assert 2 == finished.code, finished.text
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr


# Chunks that are full, cut short, of one element, and of no whole number of cache lines; more than a stage's slots.
GRADIENTS = Workload("odd", (WorkloadGradient("a:b", 1), WorkloadGradient("c=d", 70_001), WorkloadGradient("e", 15)))
ODD_SIZES = (4, 60, 1020, 10_000, (256 << 10) - 4, (256 << 10) + 4, 4_000_000, 4_100_004)


@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
def test_the_limit_computes_sums(ranks: int) -> None:
    """The bare program checks uneven blocks and chunks, and ends with 0 only if all sums are right."""
    program = built(LIMIT, os.environ.get("CXX", "c++"), os.environ)
    scheme = Scheme(ODD_SIZES, (GRADIENTS,), group_ms=0.1, max_calls=100, size_ms=1, workload_ms=1)

    finished = run_job([str(program), str(ranks), *scheme.arguments()])

    assert 0 == finished.code, finished.text
    measured = [(row["workload"], row["bytes"], row["way"]) for row in map(json.loads, finished.stdout.splitlines())]
    subjects = [*(("", size) for size in ODD_SIZES), ("odd", GRADIENTS.bytes)]
    assert [(*subject, way) for subject in subjects for way in ("registered", "staged")] == measured
