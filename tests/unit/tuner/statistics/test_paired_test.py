# SPDX-License-Identifier: Apache-2.0
"""Tests of the paired sequential test: its interval, its error rate, and how early it ends."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ringtune.tuner import default_config
from ringtune.tuner.sample import Phase, Sample, StepTimes, Trial, Window
from ringtune.tuner.statistics import pair_noise
from ringtune.tuner.statistics.pair_noise import (
    LEAST_WEIGHT,
    MIN_PAIRS,
    MIN_REPEATS,
    MOST_WEIGHT,
    SPEAKING_PAIRS,
    PairNoise,
    expected_pair_noise,
    window_variance,
)
from ringtune.tuner.statistics.paired_test import CI_LEVEL, ERROR, FUTILITY_PAIRS, Pair, PairedTest, speedup_interval
from ringtune.tuner.statistics.step_noise import Scatter
from ringtune.tuner.testing import measured_trial, poor_baseline

PAIRS = 12
WINDOW_STD = 0.02


def test_the_interval_is_students() -> None:
    """Against scipy's own one-sample interval of the mean log ratio."""
    rng = np.random.default_rng(0)
    pairs = [Pair(20.0 * math.exp(rng.normal(0.05, 0.03)), 20.0) for _ in range(12)]
    d = np.array([math.log(a / b) for a, b, _ in pairs])
    low, high = stats.t.interval(0.9, 11, loc=d.mean(), scale=stats.sem(d))

    interval = speedup_interval(pairs)

    assert pytest.approx((math.expm1(d.mean()), math.expm1(low), math.expm1(high))) == (
        interval.speedup,
        interval.low,
        interval.high,
    )


def test_equal_pairs_have_an_interval_of_no_width() -> None:
    """Without noise the speed-up is exact: 20 ms against 16 ms is 25 %."""
    interval = speedup_interval([Pair(20.0, 16.0)] * 4)

    assert pytest.approx((0.25, 0.25, 0.25)) == (interval.speedup, interval.low, interval.high)


def test_the_samples_before_the_test_count_while_pairs_are_few() -> None:
    """Two pairs that happen to agree are no proof; when there are many, they alone count."""
    few, many = ([Pair(20.0, 16.0, 0.2**2)] * pairs for pairs in (2, SPEAKING_PAIRS))
    noise = PairNoise(0.2**2)

    assert speedup_interval(few, noise).low < 0 < speedup_interval(few).low
    assert speedup_interval(many) == speedup_interval(many, noise)


def test_a_pair_counts_by_what_its_windows_tell() -> None:
    """One that is disturbed moves the speed-up little, and widens the interval less than among equals."""
    even, disturbed = [Pair(20.0, 16.0, 0.01)] * 3, Pair(20.0, 40.0, 1.0)

    weighed = speedup_interval([*even, disturbed])
    alike = speedup_interval([*even, disturbed._replace(variance=0.01)])

    assert weighed.speedup == pytest.approx(0.25, abs=0.02)
    assert alike.speedup < 0.0
    assert alike.low < 0.0 < weighed.low


def test_a_pair_is_the_surer_the_less_the_steps_of_both_windows_scatter() -> None:
    """A pair is less sure if either of its windows has steps that scatter."""
    calm, noisy = (
        replace(measured_trial(0, default_config(), [20.0]).samples[0], step_times=StepTimes(20.0, mad, 20.0))
        for mad in (0.1, 4.0)
    )
    scatter = Scatter.of([Trial(0, default_config(), (calm, calm, noisy))])

    sure, one, other = (Pair.of(*both, scatter).variance for both in ((calm, calm), (calm, noisy), (noisy, calm)))

    assert one == other
    assert sure < 0.5 * one


def uneven(rng: np.random.Generator, steps: int, late: float = 0.0) -> Sample:
    """Return a window, of which one in five scatters by five times as much; steps are late by so many deviations."""
    std = 0.15 if rng.random() < 0.2 else 0.03
    window = Window(0, tuple((20.0 * np.exp(rng.normal(late * std, std, steps))).tolist()), 1, 1)
    return Sample.from_window(window, trial_id=0, config=default_config(), phase=Phase.ADOPTION)


@pytest.mark.parametrize("pairs", [2, 5, PAIRS])
def test_it_errs_as_stated_where_some_windows_are_disturbed(pairs: int) -> None:
    """One window in five scatters by five times as much, and is slower: pairs are weighed, and still no more err."""
    rng = np.random.default_rng(pairs)

    wrong, runs = 0, 1500
    for _ in range(runs):
        trials = [Trial(0, default_config(), tuple(uneven(rng, 10, late=1.0) for _ in range(5)))]
        test, scatter = PairedTest(expected_pair_noise(trials, 10)), Scatter.of(trials)
        while len(test.pairs) < pairs and not test.is_plain:
            test.pairs.append(Pair.of(uneven(rng, 10, late=1.0), uneven(rng, 10, late=1.0), scatter))
        wrong += test.is_shown

    assert wrong / runs < ERROR + 4 * math.sqrt(ERROR / runs)


def decided(rng: np.random.Generator, gain: float, pair_limit: int = PAIRS) -> PairedTest:
    """Run a test of windows whose ln(median) scatters by WINDOW_STD."""
    test = PairedTest(PairNoise(2 * WINDOW_STD**2))
    while len(test.pairs) < pair_limit and not test.is_plain:
        baseline, challenger = np.exp(rng.normal([gain, 0.0], WINDOW_STD))
        test.pairs.append(Pair(20.0 * baseline, 20.0 * challenger, 2 * WINDOW_STD**2))
    return test


@pytest.mark.parametrize("pair_limit", [2, 5, PAIRS])
def test_a_challenger_that_is_no_faster_is_rarely_taken(pair_limit: int) -> None:
    """The error rate is that of a single look, however many looks there were (3,000 tests, four standard errors)."""
    rng = np.random.default_rng(pair_limit)

    taken = sum(decided(rng, 0.0, pair_limit).is_shown for _ in range(3000))

    assert taken / 3000 < ERROR + 4 * math.sqrt(ERROR / 3000)


def test_a_challenger_that_is_slower_by_a_window_s_noise_is_hardly_ever_taken() -> None:
    """The error rate is of those that gain nothing; 2 % slower, five pairs take fewer than 1 in 300."""
    rng = np.random.default_rng(3)

    assert sum(decided(rng, -WINDOW_STD, 5).is_shown for _ in range(3000)) < 10


def pairs_around(pairs: int, quantile: float) -> PairedTest:
    """Return a test whose mean lies so far above zero that a bound of this quantile would be zero."""
    std = 0.01
    noise = PairNoise(std**2, MOST_WEIGHT)
    freedom = pairs - 1 + noise.weight_beside(pairs)
    mean = stats.t.ppf(quantile, freedom) * std / math.sqrt(pairs)
    around = np.array([(-1.0) ** number for number in range(pairs)])
    around *= std / np.std(around, ddof=1)
    return PairedTest(noise, [Pair(20.0 * math.exp(d), 20.0, std**2) for d in mean + around - around.mean()])


@pytest.mark.parametrize("pairs", [3, 4, PAIRS])
def test_the_interval_is_two_sided_and_its_lower_end_the_bound_of_the_one_sided_test(pairs: int) -> None:
    """A mean of a little over the one-sided 5 % quantile is shown, one of a little less is not, and so it reads."""
    less, more = (pairs_around(pairs, quantile) for quantile in (0.949, 0.951))

    assert 0.9 == pytest.approx(CI_LEVEL)
    assert (False, True) == (less.is_shown, more.is_shown)
    assert less.interval.low < 0 < more.interval.low
    assert not more.is_plain


def test_of_the_fewest_pairs_more_is_asked() -> None:
    """The interval of the fewest pairs rests on earlier knowledge and is wider: two pairs need more than three."""
    less, more = (pairs_around(MIN_PAIRS, quantile) for quantile in (0.974, 0.976))

    assert (False, True) == (less.is_shown, more.is_shown)
    assert less.interval.low < 0 < more.interval.low


@pytest.mark.parametrize("pairs", [2, 3, 5, PAIRS])
def test_whatever_is_adopted_lies_above_zero_in_its_interval(pairs: int) -> None:
    """A gain is adopted exactly if it lies above zero in its interval, for any number of pairs, ended early or not."""
    rng = np.random.default_rng(pairs)
    tests = [decided(rng, gain, pairs) for gain in rng.uniform(-0.02, 0.06, 400)]

    adopted = [test.is_shown for test in tests]

    assert {True, False} == set(adopted)
    assert adopted == [test.interval.low > 0 for test in tests]


def test_large_gains_are_seen_early_and_small_ones_at_all() -> None:
    """20 % after two or three pairs, 3 % mostly within twelve."""
    rng = np.random.default_rng(1)
    large = [decided(rng, 0.2) for _ in range(200)]
    small = [decided(rng, 0.03) for _ in range(200)]

    assert np.mean([len(test.pairs) for test in large]) < 3
    assert all(test.interval.low > 0 for test in large)
    assert np.mean([test.is_shown for test in small]) > 0.8


def test_a_slower_challenger_is_given_up_early() -> None:
    """Ten per cent slower: at the first pair at which the test may give up."""
    rng = np.random.default_rng(2)

    assert {len(decided(rng, -0.1).pairs) for _ in range(50)} == {FUTILITY_PAIRS}


def test_the_expected_variance_is_that_of_windows_that_differ_by_more_than_their_steps_explain() -> None:
    """On a machine that drifts, windows of one config say more than the scatter within them; any config's do."""
    drifting = [20.0, 22.0, 18.0, 21.0]
    calm = [measured_trial(0, default_config(), [20.0] * 4)]
    other = measured_trial(1, poor_baseline(), [2 * step_ms for step_ms in drifting])

    usual, of_one, of_both = (
        expected_pair_noise(trials, calm[0].samples[0].steps).variance
        for trials in (calm, [measured_trial(0, default_config(), drifting)], [*calm, other])
    )

    assert of_one > 4 * usual
    assert math.isclose(of_one, 2 * np.var(np.log(drifting), ddof=1))
    assert math.isclose(of_both, of_one / 2)


def test_a_disturbed_window_says_little_of_how_much_windows_differ() -> None:
    """Its own steps explain by how much it does."""
    calm = [20.0, 20.1, 19.9, 20.0, 20.1, 19.9, 20.0, 20.1, 19.9]
    drifting = measured_trial(0, default_config(), [*calm, 26.0])
    disturbed = replace(drifting.samples[-1], step_times=StepTimes(26.0, 6.0, 26.0))

    lasting, explained = (
        expected_pair_noise([replace(drifting, samples=(*drifting.samples[:-1], last))], disturbed.steps)
        for last in (drifting.samples[-1], disturbed)
    )

    assert lasting.scale > 50.0
    assert explained.scale < 2.0


def test_the_expected_variance_is_not_too_small_for_the_weighed_mean_of_pairs() -> None:
    """The variance is neither too small nor three times too large where one window in five scatters fivefold."""
    rng = np.random.default_rng(0)

    trials = [Trial(0, default_config(), tuple(uneven(rng, 20) for _ in range(200)))]
    scatter, expected = Scatter.of(trials), expected_pair_noise(trials, 20)
    means = [
        math.log1p(speedup_interval([Pair.of(uneven(rng, 20), uneven(rng, 20), scatter) for _ in range(PAIRS)]).speedup)
        for _ in range(400)
    ]

    assert 1.0 < expected.variance / (PAIRS * np.var(means)) < 3.0


def test_shorter_windows_scatter_more() -> None:
    """A median of half as many steps has twice the variance, but for what no longer window averages out."""
    trials = [measured_trial(0, default_config(), [20.0])]
    steps = trials[0].samples[0].steps
    lasting = 2 * pair_noise.WINDOW_STD**2

    usual, half = (expected_pair_noise(trials, each).variance - lasting for each in (steps, steps // 2))

    assert math.isclose(half, 2 * usual)
    assert usual > 0


def scattered(windows: int, relative_mad: float) -> list[Trial]:
    """Return the baseline alone, its windows of equal medians and steps that scatter by so much."""
    trial = measured_trial(0, default_config(), [20.0] * windows)
    times = StepTimes(20.0, 20.0 * relative_mad, 20.0)
    return [replace(trial, samples=tuple(replace(sample, step_times=times) for sample in trial.samples))]


@pytest.mark.parametrize(("windows", "weight"), [(1, LEAST_WEIGHT), (2, LEAST_WEIGHT), (3, 4), (4, 5), (5, 6)])
def test_what_is_known_of_the_noise_counts_by_the_windows_it_was_seen_in(windows: int, weight: int) -> None:
    """A single window says nothing of how much windows differ, whatever its steps do, and two say too little."""
    assert weight == expected_pair_noise(scattered(windows, 0.0), 10).weight
    assert weight <= expected_pair_noise(scattered(windows, 0.05), 10).weight


def test_without_repeats_large_noise_is_known_all_the_same() -> None:
    """Noise between windows hardly matters where steps scatter by 14 %, and is all that matters at 1 %."""
    calm, noisy = (expected_pair_noise(scattered(2, mad), 5).weight for mad in (0.007, 0.1))

    assert (LEAST_WEIGHT, MIN_REPEATS + 2) == (calm, noisy)
    assert LEAST_WEIGHT < expected_pair_noise(scattered(2, 0.04), 5).weight < MIN_REPEATS + 2


def test_noise_that_many_steps_tell_is_known_better() -> None:
    """The number of steps counts where steps scatter by far more than windows differ."""
    weights = [expected_pair_noise(scattered(4, mad), 10).weight for mad in (0.0, 0.01, 0.05)]

    assert weights == sorted(weights)
    assert 5 < weights[1] < MOST_WEIGHT == weights[2]


def test_noise_beyond_what_steps_explain_is_known_from_the_windows_alone() -> None:
    """Windows of one config that differ by more than expected are all that is known of the noise."""
    assert expected_pair_noise([measured_trial(0, default_config(), [20.0, 22.0, 18.0, 21.0])], 10).weight == 5


@pytest.mark.parametrize("weight", [LEAST_WEIGHT, 5, MOST_WEIGHT])
def test_from_enough_pairs_on_they_speak_alone(weight: int) -> None:
    """The weight of the samples before the pairs fades with every pair."""
    weights = [PairNoise(1.0, weight).weight_beside(pairs) for pairs in range(MIN_PAIRS, SPEAKING_PAIRS + 1)]

    assert weights[0] == weight
    assert weights == sorted(weights, reverse=True)
    assert weights[-1] == 0


@pytest.mark.parametrize("windows", [1, 3, 5])
def test_it_errs_rarely_on_a_machine_that_is_noisier_than_usual(windows: int) -> None:
    """Windows that differ by twice of what is usual: at most 5 % of 3,000 tests of two pairs are wrong, not 10 %."""
    rng = np.random.default_rng(windows)
    wrong = 0
    for _ in range(3000):
        log_ms = rng.normal(0.0, WINDOW_STD, windows)
        trials = [measured_trial(0, default_config(), [float(20.0 * math.exp(y)) for y in log_ms])]
        sample, scatter = trials[0].samples[0], Scatter.of(trials)
        test = PairedTest(expected_pair_noise(trials, sample.steps))
        usual = 2 * window_variance(sample, scatter)
        test.pairs = [Pair(math.exp(d), 1.0, usual) for d in rng.normal(0.0, math.sqrt(2.0) * WINDOW_STD, 2)]
        wrong += test.is_shown

    assert wrong / 3000 < 0.055
