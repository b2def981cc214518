# SPDX-License-Identifier: Apache-2.0
"""Bagua's scheme is restated faithfully: its space, its start, its rule for the best."""

import math

import numpy as np

from benchmarks.tuner.regret.rivals.bagua import INITIAL_POINTS, BaguaDesigner
from ringtune.tuner import default_config, search_space
from ringtune.tuner.testing import engine_like_surface, flat_surface, measured_trial
from tests.unit.benchmarks.tuner.regret.rivals.asking import asked

SPACE = search_space({}, default_config())


def test_the_first_points_do_not_depend_on_what_was_measured() -> None:
    """Twenty of a Halton sequence: a power of two each, all else at its default."""
    suggested = asked(BaguaDesigner(SPACE, 0), INITIAL_POINTS, engine_like_surface)

    assert asked(BaguaDesigner(SPACE, 0), INITIAL_POINTS, flat_surface) == suggested
    assert all(math.log2(float(config["fusion_bytes"])).is_integer() for config in suggested)
    assert {default_config().replace({"fusion_bytes": config["fusion_bytes"]}) for config in suggested} == set(
        suggested
    )


def test_the_model_decides_afterwards() -> None:
    """Measurements matter from the twenty-first suggestion on."""
    rounds = INITIAL_POINTS + 3

    assert asked(BaguaDesigner(SPACE, 0), rounds, engine_like_surface) != asked(
        BaguaDesigner(SPACE, 0), rounds, flat_surface
    )


def test_the_luckiest_sample_wins() -> None:
    """No mean, no model."""
    lucky = default_config().replace({"fusion_bytes": 2**20})
    trials = [measured_trial(0, default_config(), [20.0, 20.0]), measured_trial(1, lucky, [30.0, 12.0, 30.0])]
    designer = BaguaDesigner(SPACE, 0)

    designer.update(trials)

    assert 1 == int(np.argmin(designer.predict([trial.config for trial in trials]).mean_log_step_ms))
