# SPDX-License-Identifier: Apache-2.0
"""Tests of the tables: what counts, and what is paired while a contest goes on."""

import pytest

from benchmarks.regret.contest import Outcome
from benchmarks.regret.report import Outcomes, upper_bound


def outcome(rival: str, seed: int, regret: float = 0.0, scenario: str = "manysmall_np2") -> Outcome:
    """Return what became of a run at 200 steps."""
    return Outcome(scenario, rival, seed, 200, regret, 0.0, 0.0)


def test_a_run_counts_when_every_rival_has_done_it() -> None:
    """So that pairs stay pairs: here the second seed has one rival only."""
    outcomes = Outcomes([outcome("random", 1), outcome("random", 0, 0.3), outcome("ringtune", 0, 0.1)])

    assert [0.3] == list(outcomes.values("regret", "random", 200, ["manysmall_np2"]))
    assert [0.1] == list(outcomes.values("regret", "ringtune", 200, ["manysmall_np2"]))


@pytest.mark.parametrize(("regrets", "counts"), [((0.01, 0.03), True), ((0.01, 0.01, 0.03), False)])
def test_a_scenario_counts_for_search_where_random_search_fails_half_of_the_time(
    regrets: tuple[float, ...], counts: bool
) -> None:
    """By 2 %."""
    outcomes = Outcomes([outcome("random", seed, regret) for seed, regret in enumerate(regrets)])

    assert counts == bool(outcomes.searched)


def test_a_flat_scenario_never_counts_for_search() -> None:
    """However lost random search was."""
    assert () == Outcomes([outcome("random", 0, 0.5, "resnet50_np2_flat")]).searched


def test_none_of_3600_runs_is_no_proof_of_never() -> None:
    """The rule of three: at most 3 of as many."""
    assert upper_bound(0, 3600) == pytest.approx(3 / 3600, rel=0.01)
