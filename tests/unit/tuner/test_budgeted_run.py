# SPDX-License-Identifier: Apache-2.0
"""Runs with a budget of steps on simulated jobs that pause: what was found must still be tested."""

import pytest

from ringtune.tuner import RunSettings, SilentObserver, TuningRun, default_config, make_designer, open_log
from ringtune.tuner.budget import ExplorationAccount
from ringtune.tuner.phases import SHORT_WINDOW_STEPS, RunState
from ringtune.tuner.simulator import SCENARIOS
from ringtune.tuner.testing import Disturbances, SyntheticTarget, measured_trial, poor_baseline
from ringtune.tuner.trials import TrialBook

MAX_STEPS = 200


@pytest.mark.parametrize("scenario", ["manysmall_8x8_25gbit", "manysmall_4x4_10gbit"])
def test_steps_are_left_to_test_what_was_found(scenario: str) -> None:
    """Half of the step time is to be gained: neither a pause in the test nor waiting in the search may cost that."""
    target = SCENARIOS[scenario].target(0)
    settings = RunSettings(
        max_steps=MAX_STEPS, max_samples=MAX_STEPS, warmup_steps=0, steps_per_sample=10, key={}, seed=0
    )
    designer = make_designer("gp", target.space(), settings.seed)

    result = TuningRun(target, designer, settings, open_log(None), SilentObserver(), clock=target.clock).run()

    assert result.adopted, result.verdict
    assert target.step_ms(result.config) < 0.8 * target.step_ms(result.baseline)


@pytest.mark.parametrize("seed", [28, 53, 62, 145])
def test_a_gain_that_was_expected_to_be_larger_is_tested_all_the_same(seed: int) -> None:
    """The search has left room for short windows; the last samples ask for long ones, of which two pairs do not fit."""
    noisy = Disturbances(step_noise=0.4)
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=noisy, seed=seed)
    settings = RunSettings(max_steps=100, max_samples=100, warmup_steps=0, steps_per_sample=10, seed=seed)
    designer = make_designer("random", target.space(), seed)

    result = TuningRun(target, designer, settings, open_log(None), SilentObserver(), clock=target.clock).run()

    assert result.speedup is not None, result.verdict
    assert result.steps <= 100


@pytest.mark.parametrize(
    ("gain", "max_steps", "expected"),
    [(0.3, 100, SHORT_WINDOW_STEPS), (0.02, 100, 10), (0.0, 100, 10), (0.3, None, 10)],
    ids=["large", "small", "none", "without a budget"],
)
def test_a_large_gain_is_tested_in_short_windows(gain: float, max_steps: int | None, expected: int) -> None:
    """What they save is the search's; a gain as small as what windows scatter by needs long ones."""
    state = RunState(
        settings=RunSettings(max_steps=max_steps, steps_per_sample=10),
        baseline=default_config(),
        incumbent=default_config(),
        reference=default_config(),
        meter=None,  # type: ignore[arg-type]
        book=TrialBook(default_config()),
        journal=None,  # type: ignore[arg-type]
        account=ExplorationAccount(0.0),
        expected_gain=gain,
    )
    state.book.add(measured_trial(0, default_config(), [20.0]).samples[0])

    assert expected == state.adoption_window_steps
