# SPDX-License-Identifier: Apache-2.0
"""Tests of the simulation of the adoption test: its noise, its search, its pairs, and both ends of its answers."""

import math

import numpy as np
import pytest

from benchmarks.tuner.adoption_error import (
    ReplayedMachine,
    SimulatedMachine,
    adoptions,
    expected_noise,
    machines,
    parse_arguments,
    shares,
)
from benchmarks.tuner.regret.problems import Sources, problems_of
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.statistics.paired_test import ERROR, LEAST_PAIRS, NoisePrior, Pair

STEPS = 10


@pytest.mark.parametrize(("step_std", "window_std"), [(0.001, 0.03), (0.05, 0.001)])
def test_windows_scatter_by_their_steps_and_beyond(step_std: float, window_std: float) -> None:
    """The scatter of 2,000 windows is the sum of both parts, that of their steps and that beyond."""
    machine = SimulatedMachine(np.random.default_rng(0), STEPS, step_std, window_std)
    log_ms = np.log(np.median(machine.windows(2000), axis=1))

    expected = math.sqrt(window_std**2 + math.pi / 2 * step_std**2 / STEPS)

    assert expected == pytest.approx(np.std(log_ms), rel=0.15)


def test_a_search_leaves_as_many_windows_of_the_baseline_as_it_is_told() -> None:
    """The others have one window each, under a config of their own."""
    trials = SimulatedMachine(np.random.default_rng(0), STEPS, 0.03, 0.01).trials(3)

    assert [3, 1, 1, 1, 1, 1] == [len(trial.samples) for trial in trials]
    assert len(trials) == len({trial.config for trial in trials})


def test_expected_noise_is_that_of_the_pairs() -> None:
    """After a long search, noise is expected as 2,000 pairs scatter, and it weighs as much as the policy says."""
    machine = SimulatedMachine(np.random.default_rng(1), STEPS, 0.03, 0.03)

    expected = expected_noise(machine.trials(1000), STEPS)

    scatter = float(np.var([pair.log_ratio for pair in machine.pairs(2000, 0.0)]))
    assert scatter == pytest.approx(expected.variance, rel=0.15)
    assert expected.weight == POLICY.noise_weight


def test_a_challenger_s_windows_are_faster_by_its_gain() -> None:
    """The mean log ratio of 2,000 pairs is the gain."""
    machine = SimulatedMachine(np.random.default_rng(0), STEPS, 0.01, 0.005)

    mean = np.mean([pair.log_ratio for pair in machine.pairs(2000, 0.1)])

    assert 0.1 == pytest.approx(mean, abs=0.001)


def test_a_large_gain_is_adopted_and_a_loss_is_not() -> None:
    """Three and six pairs give the same answer, in each of twenty tests of either kind."""
    machine = SimulatedMachine(np.random.default_rng(0), STEPS, 0.01, 0.005)
    expected = expected_noise(machine.trials(5), STEPS)

    adopted = [[adoptions(machine.pairs(6, gain), expected, (3, 6)) for _ in range(20)] for gain in (0.5, -0.5)]

    assert [[[True, True]] * 20, [[False, False]] * 20] == adopted


def test_each_limit_has_its_own_answer() -> None:
    """A gain that three noisy pairs do not show is shown by twelve, unless a loss was plain before."""
    noisy = [Pair(21.0, 20.0), Pair(20.0, 20.6), Pair(21.5, 20.0), *[Pair(21.0, 20.0)] * 9]
    lost = [Pair(20.0, 40.0)] * 4 + [Pair(40.0, 20.0)] * 8

    assert [False, True] == adoptions(noisy, NoisePrior(0.02**2, POLICY.noise_weight), (3, 12))
    assert [False, False] == adoptions(lost, NoisePrior(0.02**2, POLICY.noise_weight), (3, 12))


def test_the_shares_are_an_error_rate_and_a_power(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shares are small among 200 challengers without a gain, and nearly one among those that gain 20 %."""
    monkeypatch.setattr("sys.argv", ["adoption_error", "--runs", "200", "--gain", "0.2", "--pairs", "3", "5"])
    machine = SimulatedMachine(np.random.default_rng(2), STEPS, 0.03, 0.008)

    errors, powers = shares(machine, parse_arguments(), 2)

    assert max(errors) < ERROR + 4 * math.sqrt(ERROR / 200)
    assert min(powers) > 0.95


def test_fewer_pairs_than_a_decision_needs_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the number that is needed, instead of a table of tests that never adopt."""
    monkeypatch.setattr("sys.argv", ["adoption_error", "--pairs", str(LEAST_PAIRS - 1), "5"])

    with pytest.raises(SystemExit):
        parse_arguments()

    assert f"{LEAST_PAIRS - 1} pairs are too few for a decision, {LEAST_PAIRS} are needed" in capsys.readouterr().err


def test_recorded_windows_are_replayed() -> None:
    """The typical step is the baseline's, and a challenger's is shorter by its gain."""
    problem = next(iter(problems_of(Sources(), "recorded").values()))
    machine = ReplayedMachine(problem, STEPS, 0)

    usual, faster = (float(np.median(machine.windows(300, gain))) for gain in (0.0, math.log(2.0)))

    assert problem.step_ms(problem.baseline) == pytest.approx(usual, rel=0.05)
    assert usual / 2 == pytest.approx(faster, rel=0.05)


def test_a_kind_without_data_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that is missing ends the program, also beside one that is there."""
    monkeypatch.setattr("sys.argv", ["adoption_error", "--replay", "recorded", "public"])

    with pytest.raises(SystemExit, match="nothing public to replay: .*--data names no folder"):
        machines(parse_arguments())
