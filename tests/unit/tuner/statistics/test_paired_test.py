# SPDX-License-Identifier: Apache-2.0
"""Tests of the paired sequential test: its interval, its error rate, and how early it ends."""

import math

import numpy as np
import pytest
from scipy import stats

from ringtune.tuner import default_config
from ringtune.tuner.policy_numbers import POLICY, Policy
from ringtune.tuner.sample import Phase, Sample, Trial, Window
from ringtune.tuner.statistics.noise import WindowNoise
from ringtune.tuner.statistics.paired_test import (
    CI_LEVEL,
    ERROR,
    LEAST_PAIRS,
    Interval,
    NoisePrior,
    Pair,
    PairedTest,
    speedup_interval,
)

PAIRS = 12
WINDOW_STD = 0.02
PAIR_NOISE = NoisePrior(2 * WINDOW_STD**2, POLICY.noise_weight)
"""Noise of pairs of windows that differ by WINDOW_STD, as the policy weighs it."""


def random_pairs(count: int, gain: float = 0.05) -> list[Pair]:
    """Return pairs whose log ratio scatters by 3 % about a gain."""
    rng = np.random.default_rng(count)
    return [Pair(20.0 * math.exp(rng.normal(gain, 0.03)), 20.0) for _ in range(count)]


def students(mean: float, standard_error: float, freedom: float, level: float) -> Interval:
    """Return scipy's interval of a mean log ratio, as a speed-up."""
    low, high = stats.t.interval(level, freedom, loc=mean, scale=standard_error)
    return Interval(math.expm1(mean), math.expm1(low), math.expm1(high))


def is_close(one: Interval, other: Interval) -> bool:
    """Return whether all three numbers agree to eight digits."""
    return bool(np.allclose([one.speedup, one.low, one.high], [other.speedup, other.low, other.high], rtol=1e-8))


@pytest.mark.parametrize("level", [0.9, 0.95, 0.998])
@pytest.mark.parametrize("count", [2, 3, PAIRS])
def test_without_expected_noise_the_interval_is_students(count: int, level: float) -> None:
    """Against scipy's own one-sample interval of the mean log ratio."""
    d = np.array([pair.log_ratio for pair in random_pairs(count)])

    interval = speedup_interval(random_pairs(count), None, level)

    assert is_close(students(float(d.mean()), float(stats.sem(d)), count - 1, level), interval)


@pytest.mark.parametrize("weight", [1.0, 2.5, 4.0, 100.0])
@pytest.mark.parametrize("count", [1, 2, 3, PAIRS])
def test_expected_noise_counts_as_so_many_degrees_of_freedom(count: int, weight: float) -> None:
    """The interval has the pooled variance (nu s0^2 + sum of squares) / (nu + n - 1) and scipy's t of those degrees."""
    d = np.array([pair.log_ratio for pair in random_pairs(count)])
    freedom = weight + count - 1
    variance = (weight * 0.01**2 + float(np.sum((d - d.mean()) ** 2))) / freedom

    interval = speedup_interval(random_pairs(count), NoisePrior(0.01**2, weight))

    assert is_close(students(float(d.mean()), math.sqrt(variance / count), freedom, CI_LEVEL), interval)


def test_equal_pairs_have_an_interval_of_no_width() -> None:
    """Without noise the speed-up is exact: 20 ms against 16 ms is 25 %."""
    interval = speedup_interval([Pair(20.0, 16.0)] * 4)

    assert pytest.approx((0.25, 0.25, 0.25)) == (interval.speedup, interval.low, interval.high)


def test_expected_noise_keeps_few_pairs_that_happen_to_agree_from_being_proof() -> None:
    """Three pairs that agree exactly have an interval about zero on a machine that is known to be noisy."""
    agreeing, noise = [Pair(20.0, 16.0)] * 3, NoisePrior(0.4**2, POLICY.noise_weight)

    assert speedup_interval(agreeing, noise).low < 0 < speedup_interval(agreeing).low


def test_expected_noise_fades_as_pairs_become_many() -> None:
    """The interval of 400 pairs is that of the pairs alone, although four times their variance was expected."""
    few, many = random_pairs(4), random_pairs(400)
    noise = NoisePrior((2 * 0.03) ** 2, POLICY.noise_weight)

    few_wider, many_wider = (
        (both.high - both.low) / (alone.high - alone.low) - 1.0
        for both, alone in ((speedup_interval(pairs, noise), speedup_interval(pairs)) for pairs in (few, many))
    )

    assert abs(many_wider) < 0.02
    assert abs(few_wider) > 0.1


@pytest.mark.parametrize("count", range(LEAST_PAIRS))
def test_fewer_pairs_than_the_least_decide_nothing(count: int) -> None:
    """However large a gain or a loss is, and without any pair: the test neither adopts nor ends."""
    for pair in (Pair(20.0, 10.0), Pair(10.0, 20.0)):
        test = PairedTest(NoisePrior(0.01**2, 100.0), Policy(futility_pairs=1), [pair] * count)

        assert (False, False, False) == (test.is_decidable, test.shows_gain, test.can_end_early)


def test_the_least_pairs_decide() -> None:
    """A gain of a factor of two, beside noise of 1 %, is shown and plain as soon as there are enough pairs."""
    test = PairedTest(NoisePrior(0.01**2, 4.0), pairs=[Pair(20.0, 10.0)] * LEAST_PAIRS)

    assert (True, True, True) == (test.is_decidable, test.shows_gain, test.can_end_early)


def decided(rng: np.random.Generator, gain: float, pair_limit: int = PAIRS, policy: Policy = POLICY) -> PairedTest:
    """Run a test of windows whose ln(typical step) scatters by WINDOW_STD, as is expected of them."""
    test = PairedTest(PAIR_NOISE, policy)
    while len(test.pairs) < pair_limit and not test.can_end_early:
        baseline, challenger = np.exp(rng.normal([gain, 0.0], WINDOW_STD))
        test.pairs.append(Pair(20.0 * baseline, 20.0 * challenger))
    return test


@pytest.mark.parametrize("pair_limit", sorted({LEAST_PAIRS, 3, 5, PAIRS}))
def test_a_challenger_that_is_no_faster_is_rarely_taken(pair_limit: int) -> None:
    """The error rate is that of a single look, however many looks there were (2,000 tests, four standard errors)."""
    rng = np.random.default_rng(pair_limit)

    taken = sum(decided(rng, 0.0, pair_limit).shows_gain for _ in range(2000))

    assert taken / 2000 < ERROR + 4 * math.sqrt(ERROR * (1 - ERROR) / 2000)


def test_looks_by_the_level_of_the_last_one_would_add_up() -> None:
    """If every look adopted at 5 %, twelve pairs would err more than twice as often as with early ends at 0.1 %."""
    strict, lax = (
        sum(decided(np.random.default_rng(seed), 0.0, policy=policy).shows_gain for seed in range(2000))
        for policy in (POLICY, Policy(early_error=ERROR))
    )

    assert lax > 2 * strict


def test_a_challenger_that_is_slower_by_a_window_s_noise_is_hardly_ever_taken() -> None:
    """The error rate is that of challengers without a gain; 2 % slower, five pairs take fewer than 1 in 200."""
    rng = np.random.default_rng(3)

    assert sum(decided(rng, -WINDOW_STD, 5).shows_gain for _ in range(2000)) < 10


def pairs_around(pairs: int, quantile: float, policy: Policy = POLICY) -> PairedTest:
    """Return a test whose mean lies so far above zero that a bound of this quantile would be zero."""
    std = 0.01
    noise = NoisePrior(std**2, POLICY.noise_weight)
    mean = stats.t.ppf(quantile, pairs - 1 + noise.weight) * std / math.sqrt(pairs)
    around = np.array([(-1.0) ** number for number in range(pairs)])
    around *= std / np.std(around, ddof=1)
    return PairedTest(noise, policy, [Pair(20.0 * math.exp(d), 20.0) for d in mean + around - around.mean()])


@pytest.mark.parametrize("pairs", [3, 4, PAIRS])
def test_the_interval_is_two_sided_and_its_lower_end_the_bound_of_the_one_sided_test(pairs: int) -> None:
    """A mean of a little over the one-sided 5 % quantile is shown, one of a little less is not, and so it reads."""
    less, more = (pairs_around(pairs, quantile) for quantile in (0.949, 0.951))

    assert 0.9 == pytest.approx(CI_LEVEL)
    assert (False, True) == (less.shows_gain, more.shows_gain)
    assert less.interval.low < 0 < more.interval.low
    assert not more.can_end_early


@pytest.mark.parametrize("early_error", [0.001, 0.01])
@pytest.mark.parametrize("pairs", [3, 4, PAIRS])
def test_the_test_ends_early_for_a_challenger_beyond_the_early_bound_alone(pairs: int, early_error: float) -> None:
    """A mean of a little over the quantile of one early look is plain, one of a little less is shown and goes on."""
    policy = Policy(early_error=early_error)
    less, more = (pairs_around(pairs, 1.0 - factor * early_error, policy) for factor in (1.05, 0.95))

    assert (True, True) == (less.shows_gain, more.shows_gain)
    assert (False, True) == (less.can_end_early, more.can_end_early)


@pytest.mark.parametrize("pairs", sorted({LEAST_PAIRS, 3, 5, PAIRS}))
def test_whatever_is_adopted_lies_above_zero_in_its_interval(pairs: int) -> None:
    """A gain is adopted exactly if it lies above zero in its interval, for any number of pairs, ended early or not."""
    rng = np.random.default_rng(pairs)
    tests = [decided(rng, gain, pairs) for gain in rng.uniform(-0.02, 0.06, 400)]

    adopted = [test.shows_gain for test in tests]

    assert {True, False} == set(adopted)
    assert adopted == [test.interval.low > 0 for test in tests]


def test_large_gains_are_seen_early_and_small_ones_at_all() -> None:
    """20 % after three or four pairs, 3 % mostly within twelve."""
    rng = np.random.default_rng(1)
    large = [decided(rng, 0.2) for _ in range(200)]
    small = [decided(rng, 0.03) for _ in range(200)]

    assert np.mean([len(test.pairs) for test in large]) < 4
    assert all(test.interval.low > 0 for test in large)
    assert np.mean([test.shows_gain for test in small]) > 0.8


@pytest.mark.parametrize("futility_pairs", [4, 7])
def test_a_slower_challenger_is_given_up_early(futility_pairs: int) -> None:
    """Ten per cent slower: at the first pair at which the policy lets a test give up, and never adopted."""
    rng = np.random.default_rng(2)
    tests = [decided(rng, -0.1, policy=Policy(futility_pairs=futility_pairs)) for _ in range(50)]

    assert {futility_pairs} == {len(test.pairs) for test in tests}
    assert not any(test.shows_gain for test in tests)


def test_a_challenger_that_may_be_as_fast_is_not_given_up() -> None:
    """While the interval reaches above zero the test goes on to its last pair."""
    around = [Pair(20.0, 20.4), Pair(20.4, 20.0)] * 3

    assert not any(PairedTest(PAIR_NOISE, pairs=around[:count]).can_end_early for count in range(1, 7))


def drawn_window(rng: np.random.Generator, window_std: float, *, is_uneven: bool) -> Sample:
    """Return a window of ten steps; if uneven, one in five scatters by five times as much and is late."""
    step_std = 0.15 if is_uneven and rng.random() < 0.2 else 0.03
    log_ms = rng.normal(0.0, window_std) + rng.normal(step_std if is_uneven else 0.0, step_std, 10)
    window = Window(0, tuple((20.0 * np.exp(log_ms)).tolist()), 1, 1)
    return Sample.from_window(window, trial_id=0, config=default_config(), phase=Phase.ADOPTION)


def error_rate(baselines: int, pairs: int, window_std: float, *, is_uneven: bool = False, runs: int = 1000) -> float:
    """Return the share of tests that adopt an equal challenger, with noise as the baseline's windows have shown it."""
    rng = np.random.default_rng([baselines, pairs])
    wrong = 0
    for _ in range(runs):
        samples = tuple(drawn_window(rng, window_std, is_uneven=is_uneven) for _ in range(baselines))
        noise = WindowNoise.of([Trial(0, default_config(), samples)])
        test = PairedTest(NoisePrior(noise.pair_variance(10), noise.weight))
        while len(test.pairs) < pairs and not test.can_end_early:
            both = [drawn_window(rng, window_std, is_uneven=is_uneven).typical_ms for _ in range(2)]
            test.pairs.append(Pair(*both))
        wrong += test.shows_gain
    return wrong / runs


@pytest.mark.parametrize("pairs", sorted({LEAST_PAIRS, 5, PAIRS}))
def test_it_errs_as_stated_where_some_windows_are_disturbed(pairs: int) -> None:
    """One window in five scatters by five times as much, and is slower: no more tests err than are stated."""
    rate = error_rate(5, pairs, 0.0, is_uneven=True)

    assert rate < ERROR + 4 * math.sqrt(ERROR / 1000)


@pytest.mark.parametrize("baselines", [2, 3, 5])
@pytest.mark.parametrize("window_std", [0.003, POLICY.window_std])
def test_it_errs_as_stated_on_machines_as_noisy_as_expected(baselines: int, window_std: float) -> None:
    """At most 5 % of 1,000 tests of three pairs are wrong, however few windows the baseline has."""
    rate = error_rate(baselines, 3, window_std)

    assert rate < ERROR + 2 * math.sqrt(ERROR / 1000)


@pytest.mark.parametrize("pairs", sorted({LEAST_PAIRS, 3}))
@pytest.mark.parametrize("baselines", [2, 3, 5])
def test_it_errs_rarely_on_a_machine_that_is_noisier_than_usual(baselines: int, pairs: int) -> None:
    """Windows differ by two and a half times the usual, few have shown it: about 5 % of 2,000 tests are wrong."""
    rate = error_rate(baselines, pairs, WINDOW_STD, runs=2000)

    assert rate < ERROR + 3 * math.sqrt(ERROR / 2000)


def test_repeated_windows_that_differ_ask_more_of_the_test() -> None:
    """Three pairs show a gain beside a calm baseline, and not beside one whose windows differ by 10 %."""
    calm, wild = ([20.0] * 5, [20.0, 22.0, 18.0, 21.0, 19.0])
    pairs = [Pair(20.8, 20.0), Pair(21.0, 20.0), Pair(20.6, 20.0)]
    shown = []
    for medians in (calm, wild):
        samples = tuple(
            Sample.from_window(Window(0, (ms,) * 10, 1, 1), trial_id=0, config=default_config(), phase=Phase.SEARCH)
            for ms in medians
        )
        noise = WindowNoise.of([Trial(0, default_config(), samples)])
        shown.append(PairedTest(NoisePrior(noise.pair_variance(10), noise.weight), pairs=pairs).shows_gain)

    assert [True, False] == shown
