# SPDX-License-Identifier: Apache-2.0
"""Tests of how a budget of steps is shared."""

import math

import numpy as np
import pytest

from ringtune.tuner.policy.budget import (
    EXPLORATION_GRACE_S,
    EXPLORATION_SHARE,
    ExplorationAccount,
    adoption_steps,
    pairs_needed,
    reserved_steps,
)
from ringtune.tuner.policy.measuring import SETTLE_STEPS
from ringtune.tuner.statistics.pair_noise import LEAST_WEIGHT, MIN_PAIRS, MOST_WEIGHT, PairNoise
from ringtune.tuner.statistics.paired_test import Pair, PairedTest

PAIR_STD = 0.03
NOISE = PairNoise(PAIR_STD**2)


@pytest.mark.parametrize("weight", [LEAST_WEIGHT, MOST_WEIGHT])
def test_so_many_pairs_show_the_gain_mostly(weight: int) -> None:
    """The number of pairs shows the gain in at least four of five tests, and is not much larger than needed."""
    rng = np.random.default_rng(0)
    noise = PairNoise(PAIR_STD**2, weight)
    for gain in (0.02, 0.03, 0.05):
        pairs = pairs_needed(gain, noise)
        shown = 0
        for _ in range(300):
            test = PairedTest(noise)
            test.pairs = [Pair(math.exp(d), 1.0, PAIR_STD**2) for d in rng.normal(gain, PAIR_STD, pairs)]
            shown += test.interval.low > 0
        assert 0.8 < shown / 300 < 0.97


def test_no_gain_is_so_large_that_one_pair_would_do() -> None:
    """An interval needs two."""
    assert pairs_needed(2.0, NOISE) == MIN_PAIRS


def test_neighbouring_pairs_do_not_switch() -> None:
    """Three pairs, baseline or challenger first in turn, are three windows of each and four switches."""
    assert adoption_steps(3, 10) == 6 * 10 + 4 * SETTLE_STEPS


@pytest.mark.parametrize(("max_steps", "spare"), [(100, 0), (200, 1), (390, 1)])
def test_the_fewest_pairs_are_reserved_and_a_spare_one_where_it_fits(max_steps: int, spare: int) -> None:
    """A pause voids a pair, which must not cost the best config its test."""
    assert adoption_steps(MIN_PAIRS + spare, 10) == reserved_steps(max_steps, 10, most_pairs=12)


@pytest.mark.parametrize(("max_steps", "pairs"), [(600, 5), (1000, 9), (100_000, 12)])
def test_of_a_large_budget_a_share_is_the_test_s_up_to_all_its_pairs(max_steps: int, pairs: int) -> None:
    """A large budget reserves a share for the test, since future noise may exceed past noise."""
    assert adoption_steps(pairs, 10) == reserved_steps(max_steps, 10, most_pairs=12)


def test_the_account_is_of_the_whole_job() -> None:
    """Nothing counts in the first minute; then what all searches cost counts together, and no gain pays for another."""
    account = ExplorationAccount(began_s=1000.0)
    allowed_s = EXPLORATION_SHARE * 1000.0

    in_grace = account.is_overdrawn(1000.0 + EXPLORATION_GRACE_S, 50.0)
    account.close_search(-500.0)
    account.close_search(0.6 * allowed_s)

    assert not in_grace
    assert not account.is_overdrawn(2000.0, 0.3 * allowed_s)
    assert account.is_overdrawn(2000.0, 0.5 * allowed_s)
    assert not account.is_overdrawn(3000.0, 0.5 * allowed_s)


def test_the_account_has_room_for_what_is_tried_next() -> None:
    """Nothing is tried that might make the cost too much; what the same search has gained makes room."""
    account = ExplorationAccount(began_s=0.0)
    now_s = 1000.0
    allowed_s = EXPLORATION_SHARE * now_s

    assert not account.is_overdrawn(now_s, 0.5 * allowed_s, risk_s=0.4 * allowed_s)
    assert account.is_overdrawn(now_s, 0.5 * allowed_s, risk_s=0.6 * allowed_s)
    assert not account.is_overdrawn(now_s, -0.5 * allowed_s, risk_s=1.4 * allowed_s)
    assert account.is_overdrawn(now_s, -0.5 * allowed_s, risk_s=1.6 * allowed_s)
