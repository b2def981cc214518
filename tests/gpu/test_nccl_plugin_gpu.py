# SPDX-License-Identifier: Apache-2.0
"""The tuner plugin inside NCCL on a GPU: it is loaded and asked, and NCCL's own log shows that its rules hold."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from ringtune.launch_tuning import plugin_path
from ringtune.tuner import read_log
from ringtune.tuning.command.engines.nccl_table import TABLE_VARIABLE, Rule, write_table
from tests.gpu.torch_ranks import DUPLICATE, REPOSITORY, figures_of, run_ranks

LOGGED = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,TUNING"}
CHOICE = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}")
SMALL_BYTES = 64 * 1024
RULES = (
    Rule("allreduce", "tree", "simple", bytes_range=(0, SMALL_BYTES)),
    Rule("allreduce", "ring", "ll", bytes_range=(SMALL_BYTES + 1, 2**40)),
    Rule("allgather", "ring", "ll"),
    Rule("reducescatter", "ring", "simple", channels=1),
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here; make test-gpu brings it to one")


def loaded(table: Path) -> dict[str, str]:
    """Return the function that loads the plugin with a table."""
    return {**LOGGED, "NCCL_TUNER_PLUGIN": str(plugin_path()), TABLE_VARIABLE: str(table)}


def collectives(folder: Path, environ: Mapping[str, str], *, ranks: int = 2) -> str:
    """Run the collectives, whose results are checked, and return rank 0's output."""
    try:
        return run_ranks("nccl_collectives", ["1"], folder, ranks=ranks, environ=environ)[0]
    except AssertionError as error:
        if DUPLICATE in str(error):
            pytest.skip(f"this NCCL has no two ranks on one GPU: {DUPLICATE}")
        raise


def choices(text: str) -> dict[str, list[tuple[int, str, str, int]]]:
    """Return NCCL's choices: by collective the bytes, algorithm, protocol and number of channels of each call."""
    found: dict[str, list[tuple[int, str, str, int]]] = {}
    for collective, size, algorithm, protocol, low, high in CHOICE.findall(text):
        call = (int(size), algorithm.lower(), protocol.lower(), int(high) - int(low) + 1)
        found.setdefault(collective.lower(), []).append(call)
    return found


def test_rules_hold_inside_nccl(tmp_path: Path) -> None:
    """Algorithm, protocol and channels by collective and size, in NCCL's own words; and the results are right."""
    write_table(tmp_path / "table", RULES)

    text = collectives(tmp_path, loaded(tmp_path / "table"))

    assert f"ringtune tuner: {len(RULES)} rules for this communicator" in text, text[-4000:]
    chosen = choices(text)
    small = {call[1:3] for call in chosen["allreduce"] if call[0] <= SMALL_BYTES}
    large = {call[1:3] for call in chosen["allreduce"] if call[0] > SMALL_BYTES}
    assert ({("tree", "simple")}, {("ring", "ll")}) == (small, large), chosen
    assert {("ring", "ll")} == {call[1:3] for call in chosen["allgather"]}, chosen
    assert {("ring", "simple", 1)} == {call[1:] for call in chosen["reducescatter"]}, chosen


def test_without_a_table_nccl_decides(tmp_path: Path) -> None:
    """A table that is not there costs one line; the job goes on, and its results are right."""
    text = collectives(tmp_path, loaded(tmp_path / "nothing"))

    assert "is ignored, for it cannot be opened; NCCL decides" in text, text[-4000:]
    assert figures_of(text)["nccl"]


def test_without_the_plugin_nothing_of_it_is_seen(tmp_path: Path) -> None:
    """The baseline of a tuning run is NCCL as it is."""
    text = collectives(tmp_path, LOGGED)

    assert "ringtune tuner:" not in text
    assert choices(text)


def test_one_rank_alone_loads_the_plugin(tmp_path: Path) -> None:
    """The communicator of one rank is made as any other; its collectives ask no tuner."""
    write_table(tmp_path / "table", RULES)

    text = collectives(tmp_path, loaded(tmp_path / "table"), ranks=1)

    assert f"ringtune tuner: {len(RULES)} rules for this communicator" in text, text[-4000:]


def test_nccl_is_tuned_by_launches(tmp_path: Path) -> None:
    """A short run comes to a decision; every launch's results were compared with those of the defaults."""
    collectives(tmp_path, {})  # where two ranks cannot share the GPU there is nothing to tune
    job = [sys.executable, "-m", "tests.gpu.programs.nccl_job", str(tmp_path / "ranks")]
    options = ["--max-samples", "1", "--pairs", "2", "--only", "protocol", "--trial-timeout-s", "60"]
    files = ["--log", str(tmp_path / "log"), "--output", str(tmp_path / "out")]
    command = [sys.executable, "-m", "ringtune.cli", "tune", "--target", "nccl", *options, *files, "--", *job]

    finished = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=240)

    assert 0 == finished.returncode, finished.stdout + finished.stderr
    assert "results: compared with those of the defaults" in finished.stdout
    (run,) = read_log(tmp_path / "log").runs
    assert run.result is not None
    assert all(sample.valid for sample in run.samples), finished.stderr
