# SPDX-License-Identifier: Apache-2.0
"""The simulation of the adoption test: windows scatter as they are told to, and a large gain is seen."""

import math

import numpy as np
import pytest

from benchmarks.tuner.adoption_error import ReplayedMachine, SimulatedMachine, adoptions, machines, parse_arguments
from benchmarks.tuner.regret.problems import Sources, problems_of
from ringtune.tuner.statistics.pair_noise import expected_pair_noise

STEPS = 10


@pytest.mark.parametrize(("step_std", "window_std"), [(0.001, 0.03), (0.05, 0.001)])
def test_windows_scatter_by_their_steps_and_beyond(step_std: float, window_std: float) -> None:
    """The scatter of 2,000 windows is the sum of both parts, that of their steps and that beyond."""
    machine = SimulatedMachine(np.random.default_rng(0), STEPS, step_std, window_std)
    log_ms = np.log(np.median(machine.windows(2000), axis=1))

    expected = math.sqrt(window_std**2 + math.pi / 2 * step_std**2 / STEPS)

    assert expected == pytest.approx(np.std(log_ms), rel=0.15)


def test_a_search_leaves_as_many_windows_of_the_baseline_as_it_is_told() -> None:
    """The other windows are once each, each under a config of its own."""
    trials = SimulatedMachine(np.random.default_rng(0), STEPS, 0.03, 0.01).trials(3)

    assert [3, 1, 1, 1, 1, 1] == [len(trial.samples) for trial in trials]
    assert len(trials) == len({trial.config for trial in trials})


def test_a_large_gain_is_adopted_and_a_loss_is_not() -> None:
    """In each of twenty tests."""
    machine = SimulatedMachine(np.random.default_rng(0), STEPS, 0.01, 0.005)
    trials = machine.trials(5)
    expected = expected_pair_noise(trials, STEPS)

    adopted = [[adoptions(machine.pairs(6, gain, trials), expected, (2, 6)) for _ in range(20)] for gain in (0.5, -0.5)]

    assert [[[True, True]] * 20, [[False, False]] * 20] == adopted


def test_recorded_windows_are_replayed() -> None:
    """A replayed window has the baseline's typical step, and a challenger's is shorter by its gain."""
    problem = next(iter(problems_of(Sources(), "recorded").values()))
    machine = ReplayedMachine(problem, STEPS, 0)

    usual, faster = (float(np.median(machine.windows(300, gain))) for gain in (0.0, math.log(2.0)))

    assert problem.step_ms(problem.baseline) == pytest.approx(usual, rel=0.05)
    assert usual / 2 == pytest.approx(faster, rel=0.05)


def test_a_kind_without_data_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind without data is an error, even beside one with data."""
    monkeypatch.setattr("sys.argv", ["adoption_error", "--replay", "recorded", "public"])

    with pytest.raises(SystemExit, match="nothing public to replay: .*--data names no folder"):
        machines(parse_arguments())
