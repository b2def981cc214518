# SPDX-License-Identifier: Apache-2.0
"""Tests of the budget: steps that are left, the part of the adoption test, and the account of exploration."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ringtune.tuner import RunSettings
from ringtune.tuner.policy.budget import (
    MOST_PAIRS,
    ExplorationAccount,
    adoption_steps,
    pair_window_steps,
    pairs_needed,
    reserved_steps,
    steps_left_by_limit,
)
from ringtune.tuner.policy.pace import Pace
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.statistics.noise import WindowNoise
from ringtune.tuner.statistics.paired_test import LEAST_PAIRS, NoisePrior, Pair, PairedTest

SETTLE = POLICY.settle_steps
NOISE = WindowNoise(step_variance=0.0, between_variance=0.03**2 / 2)


def paced(steps: int, step_s: float) -> Pace:
    """Return the pace of a run after one window."""
    now_s = 0.0
    pace = Pace(lambda: now_s)
    now_s = steps * step_s
    pace.note(steps, None)
    return pace


@pytest.mark.parametrize(
    ("baseline_s", "expected"),
    [(0.1, 450), (0.2, 450), (1.8, 50)],
    ids=["a faster default", "the same", "a slower default"],
)
def test_seconds_are_steps_of_the_slower_of_default_and_pace(baseline_s: float, expected: int) -> None:
    """The 95 s left of 100 are planned; half of the test's windows are the default's."""
    settings = RunSettings(max_samples=None, max_seconds=100.0)
    elapsed_s = 100.0 * POLICY.planned_share - 90.0

    left = steps_left_by_limit(settings, paced(25, 0.2), elapsed_s=elapsed_s, baseline_s=baseline_s)

    assert {"steps": math.inf, "seconds": pytest.approx(expected)} == left


def test_the_least_number_of_steps_outlives_the_seconds() -> None:
    """A least number of 200 steps leaves 175 after 25, even when all seconds are gone."""
    settings = RunSettings(max_samples=None, max_seconds=100.0, least_steps=200)

    left = steps_left_by_limit(settings, paced(25, 8.0), elapsed_s=200.0, baseline_s=8.0)

    assert {"steps": math.inf, "seconds": 175} == left


def test_without_a_pace_seconds_set_no_limit() -> None:
    """Steps do, before the first window as after it."""
    settings = RunSettings(max_samples=None, max_steps=300, max_seconds=100.0)

    assert {"steps": 300, "seconds": math.inf} == steps_left_by_limit(settings, Pace(lambda: 0.0), 0.0, 0.0)


def test_the_pairs_that_are_needed_show_the_gain_in_about_half_of_the_tests() -> None:
    """Their expected lower bound is zero: fewer would show it rarely, twice as many mostly."""
    rng = np.random.default_rng(0)
    for gain in (0.02, 0.03, 0.05):
        pairs = pairs_needed(gain, NOISE, window_steps=10)
        shown = []
        for count in (pairs, 2 * pairs):
            tests = [PairedTest(NoisePrior(NOISE.pair_variance(10), NOISE.weight)) for _ in range(300)]
            for test in tests:
                test.pairs = [Pair(math.exp(d), 1.0) for d in rng.normal(gain, 0.03, count)]
            shown.append(sum(test.interval.low > 0 for test in tests) / len(tests))
        assert 0.35 < shown[0] < 0.85, (gain, pairs, shown)
        assert shown[1] > 0.75, (gain, pairs, shown)


def test_no_gain_is_so_large_that_one_pair_would_do_nor_so_small_that_the_estimate_never_ends() -> None:
    """A decision needs two pairs; beyond a hundred the estimate stops counting."""
    assert pairs_needed(2.0, NOISE, 10) == LEAST_PAIRS
    assert pairs_needed(1e-6, NOISE, 10) == MOST_PAIRS


def test_neighbouring_pairs_do_not_switch() -> None:
    """Three pairs, baseline or challenger first in turn, are three windows of each and four switches."""
    assert adoption_steps(3, 10, SETTLE) == 6 * 10 + 4 * SETTLE


@pytest.mark.parametrize(("total", "kept"), [(60, 26), (100, 26), (200, 50), (600, 150)])
def test_the_test_keeps_its_share_and_the_fewest_pairs_at_least(total: int, kept: int) -> None:
    """Two pairs of five-step windows take 26 steps; a quarter of a larger budget is more."""
    assert kept == reserved_steps(total, 5, POLICY)


def test_nothing_is_kept_where_nothing_is_limited() -> None:
    """An infinite budget has room for any test."""
    assert reserved_steps(math.inf, 10, POLICY) == 0


@pytest.mark.parametrize(("left", "usual", "expected"), [(math.inf, 30, 30), (400, 30, 30), (200, 30, 24), (50, 30, 5)])
def test_windows_of_the_test_are_as_long_as_four_pairs_fit(left: float, usual: int, expected: int) -> None:
    """Many steps left allow the usual length; few make windows shorter, down to the shortest."""
    assert expected == pair_window_steps(left, usual, POLICY)


def test_the_account_is_of_the_whole_job() -> None:
    """The first minute does not count; then all searches count together, and no gain pays for another."""
    account = ExplorationAccount(began_s=1000.0)
    allowed_s = POLICY.exploration_share * 1000.0

    in_grace = account.is_overdrawn(POLICY, 1000.0 + POLICY.exploration_grace_s, 50.0)
    account.close_search(-500.0)
    account.close_search(0.6 * allowed_s)

    assert not in_grace
    assert not account.is_overdrawn(POLICY, 2000.0, 0.3 * allowed_s)
    assert account.is_overdrawn(POLICY, 2000.0, 0.5 * allowed_s)
    assert not account.is_overdrawn(POLICY, 3000.0, 0.5 * allowed_s)


def test_the_account_has_room_for_the_next_trial() -> None:
    """A config that might make the cost too much is not tried; a gain of the same search makes room."""
    account = ExplorationAccount(began_s=0.0)
    now_s = 1000.0
    allowed_s = POLICY.exploration_share * now_s

    assert not account.is_overdrawn(POLICY, now_s, 0.5 * allowed_s, risk_s=0.4 * allowed_s)
    assert account.is_overdrawn(POLICY, now_s, 0.5 * allowed_s, risk_s=0.6 * allowed_s)
    assert not account.is_overdrawn(POLICY, now_s, -0.5 * allowed_s, risk_s=1.4 * allowed_s)
    assert account.is_overdrawn(POLICY, now_s, -0.5 * allowed_s, risk_s=1.6 * allowed_s)


def test_a_budget_of_seconds_lends_the_account_its_share_in_advance() -> None:
    """Slow steps need not wait until the job has run for long enough to pay for one window."""
    account = ExplorationAccount(began_s=0.0)

    assert account.is_overdrawn(POLICY, 70.0, 0.0, risk_s=4.0)
    assert not account.is_overdrawn(POLICY, 70.0, 0.0, risk_s=4.0, planned_s=300.0)
    assert account.is_overdrawn(replace(POLICY, exploration_share=0.01), 70.0, 0.0, risk_s=4.0, planned_s=300.0)
