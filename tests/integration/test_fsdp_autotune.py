# SPDX-License-Identifier: Apache-2.0
"""Tuning FSDP2 over Gloo: training stays the same to the last bit, and memory is a constraint."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ringtune.tuner import read_log
from tests.integration.jobs import Finished, forked
from tests.integration.worlds import run_all_forked

SCENARIOS = ("effects", "restored", "over_the_limit", "refused", "only_forward", "tuned", "remembered")
PROGRAMS = (
    "plain",
    "accumulation",
    "bfloat16",
    "checkpointed",
    "evaluation",
    "state",
    "frozen",
    "roots",
    "own_settings",
    "compiled",
)
LOG = "tune.jsonl"
DEADLINE_S = 540.0
"""Deadline in seconds of many scenarios one after the other."""

pytestmark = pytest.mark.timeout(DEADLINE_S + 60)


def run_ranks(folder: Path, scenarios: Sequence[str], *, world_size: int = 2) -> list[Finished]:
    """Play scenarios one after the other in one job, and return how its ranks ended."""
    arguments = (str(world_size), str(folder / "store"), ",".join(scenarios), str(folder / LOG))
    commands = [forked("fsdp_autotune", str(rank), *arguments) for rank in range(world_size)]
    return run_all_forked(commands, [{}] * world_size, deadline_s=DEADLINE_S)


def check_passed(ranks: Sequence[Finished], *scenarios: str) -> None:
    """All ranks came through scenarios; their docstrings in `programs/fsdp_autotune.py` have the assertions."""
    for rank, finished in enumerate(ranks):
        for scenario in scenarios:
            assert f"{scenario}: passed on rank {rank}" in finished.stdout, finished.text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the job of all scenarios has its files."""
    return tmp_path_factory.mktemp("played")


@pytest.fixture(scope="module")
def played(folder: Path) -> Sequence[Finished]:
    """Return the ranks of the job in which all scenarios are played that leave it intact."""
    return run_ranks(folder, ("evaluation", "own_settings", *SCENARIOS))


@pytest.mark.parametrize("scenario", ["evaluation", "own_settings", *SCENARIOS])
def test_scenario(played: Sequence[Finished], scenario: str) -> None:
    """Both ranks came through; the scenario's docstring has the assertions."""
    check_passed(played, scenario)


def test_the_job_ends_well(played: Sequence[Finished]) -> None:
    """After many tuners, closed or not, both processes end by themselves."""
    assert [0, 0] == [finished.code for finished in played], played[0].text


@pytest.mark.parametrize(
    "text",
    [
        "fully_shard was called on the whole model alone",
        "no parameter has requires_grad",
        "on rank 1 are not those of rank 0",
        "above its limit under the FSDP settings that training began with",
    ],
)
def test_rank_0_says_why_it_does_not_tune(played: Sequence[Finished], text: str) -> None:
    """The reason stands on stderr in one line."""
    assert any(text in line for line in played[0].stderr.splitlines()), played[0].text


def test_a_job_is_tuned_to_the_end(played: Sequence[Finished], folder: Path) -> None:
    """An unchanged loop is tuned; all ranks end at the same step with the same settings, and the log says so."""
    first, second = (re.findall(r"ended after \d+ steps with .*", finished.stdout) for finished in played)
    assert 1 == len(first), played[0].text
    assert first == second
    run = read_log(folder / LOG).runs[0]
    assert run.run is not None
    assert "torch-fsdp2" == run.run.key["target"]
    assert run.run.memory_limit_bytes is not None
    assert {"kept_modules", "forward_prefetch", "backward_prefetch"} == set(run.run.baseline)
    assert len({str(sample.config) for sample in run.samples}) >= 3
    assert run.adoption is not None
    assert re.search(r"adopted: |keeping default: ", played[0].stderr), played[0].text


def test_a_config_above_the_limit_is_void_and_not_tried_by_the_next_job(
    played: Sequence[Finished], folder: Path
) -> None:
    """The reason is in the log, and no later job measures a config that was void."""
    check_passed(played, "remembered")
    before, after = (read_log(folder / f"{LOG}.limited{number}").runs[0] for number in range(2))
    void = [sample for sample in before.samples if sample.reason == "memory_limit"]
    assert void, before.samples
    assert all(sample.steps == 0 and not sample.valid for sample in void)
    again = [s.config for s in after.samples if s.reason is None and s.config in [v.config for v in void]]
    assert [] == again


def test_all_ranks_leave_a_config_above_the_limit_at_the_same_step(played: Sequence[Finished]) -> None:
    """One rank's memory is enough."""
    left = [re.findall(r"left the settings after \d+ steps", finished.stdout) for finished in played]

    assert 1 == len(left[0]), played[0].text
    assert left[0] == left[1]


@pytest.mark.long
@pytest.mark.parametrize("world_size", [2, 3])
def test_the_first_programs_of_a_user_train_as_without_a_tuner(tmp_path: Path, world_size: int) -> None:
    """Ten programs, each twice, with and without changes: weights agree to the last bit after every step."""
    ranks = run_ranks(tmp_path, PROGRAMS, world_size=world_size)

    check_passed(ranks, *PROGRAMS)


@pytest.mark.long
def test_hybrid_sharding_and_a_number_to_reshard_to(tmp_path: Path) -> None:
    """Four ranks on a mesh of two dimensions, and on one with groups of two after the forward pass."""
    check_passed(run_ranks(tmp_path, ["two_meshes"], world_size=4), "two_meshes")


@pytest.mark.long
def test_a_rank_that_dies_leaves_nobody_behind(tmp_path: Path) -> None:
    """The other rank's training fails, as it would without a tuner, and its process ends."""
    stayed, left = run_ranks(tmp_path, ["stops_early"])

    assert 0 == left.code, left.text
    assert 0 == stayed.code, stayed.text
    assert "rank 0 lost it" in stayed.stdout, stayed.text
