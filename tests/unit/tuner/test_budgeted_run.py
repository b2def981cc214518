# SPDX-License-Identifier: Apache-2.0
"""Runs with a budget of steps on simulated jobs that pause: what was found must still be tested."""

import pytest

from ringtune.tuner import RunSettings, SilentObserver, TuningRun, make_designer, open_log
from ringtune.tuner.simulator import SCENARIOS

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
