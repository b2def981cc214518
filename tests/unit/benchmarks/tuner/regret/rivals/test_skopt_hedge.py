# SPDX-License-Identifier: Apache-2.0
"""scikit-optimize's optimizer is told every sample, one after the other, and once."""

import math

import pytest

from benchmarks.tuner.regret.rivals.skopt_hedge import SkoptHedgeDesigner
from ringtune.tuner import Trial, default_config, search_space
from ringtune.tuner.testing import engine_like_surface, flat_surface, measured_trial
from tests.unit.benchmarks.tuner.regret.rivals.asking import asked

SPACE = search_space({}, default_config())
INITIAL_POINTS = 10
"""scikit-optimize's default; the baseline is one of them."""


def test_the_model_decides_after_ten_samples() -> None:
    """Until then the points do not depend on the measurements."""
    rounds = INITIAL_POINTS + 3
    first, second = (
        asked(SkoptHedgeDesigner(SPACE, 0), rounds, surface, [default_config()])
        for surface in (engine_like_surface, flat_surface)
    )

    assert first[: INITIAL_POINTS - 1] == second[: INITIAL_POINTS - 1]
    assert first[INITIAL_POINTS - 1 :] != second[INITIAL_POINTS - 1 :]


def history(count: int) -> list[Trial]:
    """Return trials of configs that scikit-optimize has not chosen itself."""
    configs = [default_config().replace({"cycle_ms": 1.0 + number}) for number in range(count)]
    return [measured_trial(number, config, [20.0 + number % 7]) for number, config in enumerate(configs)]


def test_the_portfolio_remembers_what_it_wanted() -> None:
    """A designer that was told step by step ends where one does that hears all trials later."""
    trials = history(INITIAL_POINTS + 4)
    kept, late = SkoptHedgeDesigner(SPACE, 5), SkoptHedgeDesigner(SPACE, 5)
    for count in range(INITIAL_POINTS, len(trials) + 1):
        kept.update(trials[:count])
        wanted = kept.suggest().config
    late.update(trials)

    assert late.suggest().config == wanted
    gains = kept._optimizer._optimizer.gains_  # type: ignore[union-attr]
    assert any(gain != 0.0 for gain in gains)


def test_other_trials_start_it_anew() -> None:
    """Trials that contradict the earlier ones replace them."""
    trials = history(INITIAL_POINTS + 2)
    others = [measured_trial(trial.trial_id, trial.config, [90.0 - trial.trial_id]) for trial in trials]
    designer, fresh = SkoptHedgeDesigner(SPACE, 5), SkoptHedgeDesigner(SPACE, 5)
    designer.update(trials)
    designer.suggest()

    designer.update(others)
    fresh.update(others)

    assert fresh.suggest().config == designer.suggest().config
    values = designer._optimizer._optimizer.yi  # type: ignore[union-attr]
    assert pytest.approx([math.log(90.0 - number) for number in range(len(others))]) == values
