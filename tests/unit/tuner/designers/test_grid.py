# SPDX-License-Identifier: Apache-2.0
"""The grid designer tries what a patient person would, in that order."""

import math

from ringtune.tuner import Config, default_config, search_space
from ringtune.tuner.designers.grid import SHARES, GridDesigner
from ringtune.tuner.testing import engine_like_surface, measured_trial

SPACE = search_space({}, default_config())


def converse(rounds: int) -> list[Config]:
    """Return what it suggests after the baseline."""
    designer, trials = GridDesigner(SPACE, 0), [measured_trial(0, default_config(), [20.0])]
    for number in range(rounds):
        designer.update(trials)
        config = designer.suggest().config
        trials.append(measured_trial(number + 1, config, [math.exp(engine_like_surface(config))]))
    return [trial.config for trial in trials[1:]]


def test_numbers_come_first_from_the_middle_outwards() -> None:
    """All combinations of two numbers, all else at its default."""
    suggested = converse(len(SHARES) ** 2)

    pairs = [(config["fusion_bytes"], config["cycle_ms"]) for config in suggested]
    assert len(set(pairs)) == len(SHARES) ** 2
    assert {default_config()["response_cache"]} == {config["response_cache"] for config in suggested}
    assert math.isclose(math.sqrt(0.05 * 50), float(suggested[0]["cycle_ms"]), rel_tol=0.01)


def test_then_one_switch_is_changed() -> None:
    """And the numbers are gone through again."""
    suggested = converse(2 * len(SHARES) ** 2)

    again = suggested[len(SHARES) ** 2 :]
    assert {not default_config()["response_cache"]} == {config["response_cache"] for config in again}
