# SPDX-License-Identifier: Apache-2.0
"""Tuning the buckets of torch's own DDP over Gloo, two ranks: training stays the same, and every end is an end."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ringtune.tuner import read_log
from tests.integration.jobs import Finished, forked
from tests.integration.worlds import run_all_forked

SCENARIOS = (
    "same",
    "frozen",
    "unfrozen",
    "unready",
    "many",
    "closed",
    "failing",
    "copied",
    "nothing",
    "disagreeing",
    "refused",
    "uneven",
    "tuned",
    "watched",
    "remembered",
    "ends_before_the_tuner",
)
LOG = "tune.jsonl"
DEADLINE_S = 540.0
"""Deadline in seconds of many scenarios one after the other."""

pytestmark = pytest.mark.timeout(DEADLINE_S + 60)


def run_ranks(folder: Path, *scenarios: str) -> list[Finished]:
    """Play scenarios one after the other in one job, and return how its ranks ended."""
    arguments = (str(folder / "store"), ",".join(scenarios), str(folder / LOG))
    commands = [forked("ddp_autotune", str(rank), *arguments) for rank in range(2)]
    return run_all_forked(commands, [{}, {}], deadline_s=DEADLINE_S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the job of all scenarios has its files."""
    return tmp_path_factory.mktemp("played")


@pytest.fixture(scope="module")
def played(folder: Path) -> Sequence[Finished]:
    """Return the ranks of the job in which all scenarios are played that leave it intact."""
    return run_ranks(folder, *SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(played: Sequence[Finished], scenario: str) -> None:
    """Both ranks came through; the scenario's docstring in `programs/ddp_autotune.py` has the assertions."""
    for rank, finished in enumerate(played):
        assert f"{scenario}: passed on rank {rank}" in finished.stdout, finished.text


def test_the_job_ends_well(played: Sequence[Finished]) -> None:
    """After many tuners, closed or not, both processes end by themselves."""
    assert [0, 0] == [finished.code for finished in played], played[0].text


@pytest.mark.parametrize(
    "text",
    [
        "the communication hook powerSGD_hook keeps a PowerSGDState",
        "the communication hook BuiltinCommHookType.FP16_COMPRESS cannot be moved",
        "the log AUTOTUNE_LOG='/nowhere/at/all.jsonl' cannot be written",
        "DDP options on rank 1 are not those of rank 0",
        "nothing to tune, for the model has one parameter",
        "nothing to tune, for one rank alone",
        "inside model.join() ranks take different numbers of steps",
        "ValueError('a broken designer')",
    ],
)
def test_rank_0_says_why_it_does_not_tune(played: Sequence[Finished], text: str) -> None:
    """The reason stands on stderr in one line."""
    assert any(text in line for line in played[0].stderr.splitlines()), played[0].text


def test_a_broken_tuner_ends_at_the_same_step_everywhere(played: Sequence[Finished]) -> None:
    """The ranks hear of the end in one round."""
    first, second = (re.findall(r"broken tuner ended after (\d+) steps", finished.stdout) for finished in played)

    assert 1 == len(first)
    assert first == second


def test_a_job_is_tuned_to_the_end(played: Sequence[Finished], folder: Path) -> None:
    """An unchanged loop is tuned; all ranks end at the same step with the same buckets, and the log says so."""
    first, second = (re.findall(r"ended after \d+ steps with .*", finished.stdout) for finished in played)
    assert 1 == len(first), played[0].text
    assert first == second
    log = read_log(folder / LOG)
    run = log.runs[0]
    assert 0 == log.bad_line_count
    assert run.run is not None
    assert "torch-ddp" == run.run.key["target"]
    assert 3 == len(run.suggestions)
    assert {"bucket_cap_mb", "first_bucket_bytes"} == {name for sample in run.samples for name in sample.config}
    assert len({str(sample.config) for sample in run.samples}) >= 4
    assert run.adoption is not None
    assert run.result is not None
    assert re.search(r"adopted: |keeping default: ", played[0].stderr), played[0].text


def test_a_decision_is_watched(played: Sequence[Finished], folder: Path) -> None:
    """Slower steps call it into question on all ranks at the same step; a run of its own in the log follows."""
    first, second = (re.findall(r"answered after .*", finished.stdout) for finished in played)
    assert 1 == len(first), played[0].text
    assert first == second
    runs = read_log(folder / f"{LOG}.watched").runs
    assert len(runs) >= 2
    assert all(run.result is not None for run in runs[:2])
    assert "is called into question" in played[0].stderr, played[0].text


def test_what_was_found_is_kept_for_the_next_job(played: Sequence[Finished], folder: Path) -> None:
    """Rank 0 adds each finished run to the file of AUTOTUNE_CACHE; the second search begins with the first's."""
    runs = read_log(folder / f"{LOG}.cache").runs

    assert 2 == len(runs), played[0].text
    assert runs[0].run is not None
    assert runs[1].run is not None
    assert runs[0].run.key == runs[1].run.key
    assert 1 == played[0].stderr.count("the search begins with the samples of a finished run ("), played[0].text


def test_a_job_outrun_by_nobody_does_not_wait_for_its_tuner(played: Sequence[Finished], folder: Path) -> None:
    """The process ends in the midst of tuning, without a close: the log has the begun run, and no result."""
    run = read_log(folder / LOG).runs[1]

    assert run.run is not None
    assert run.result is None
    last = [line for line in played[0].stderr.splitlines() if line.startswith("ringtune autotune: ")][-1]
    assert "unfinished: the job ended" in last, played[0].text


def test_a_rank_that_stops_early_leaves_nobody_behind(tmp_path: Path) -> None:
    """The other rank's training fails, as it would without a tuner, and its process ends."""
    stayed, left = run_ranks(tmp_path, "stops_early")

    assert 0 == left.code, left.text
    assert 0 == stayed.code, stayed.text
    assert "rank 0 lost it" in stayed.stdout, stayed.text


def test_an_error_in_training_ends_the_job(tmp_path: Path) -> None:
    """The exit code is training's own."""
    ranks = run_ranks(tmp_path, "raises_in_training")

    assert [7, 7] == [finished.code for finished in ranks], ranks[0].text
