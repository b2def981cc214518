# SPDX-License-Identifier: Apache-2.0
"""Tests of the random designer, the control."""

import math

import pytest

from ringtune.tuner import default_config, search_space
from ringtune.tuner.designers.random import RandomDesigner
from ringtune.tuner.testing import measured_trial, poor_baseline

SPACE = search_space({}, default_config())


def test_one_lucky_sample_is_drawn_to_the_mean_of_all() -> None:
    """A single low value is not believed where the noise is as large as the spread."""
    designer = RandomDesigner(SPACE, 0)
    other = default_config().replace({"cycle_ms": 2.0})

    designer.update([measured_trial(0, default_config(), [18.0, 22.0, 20.0]), measured_trial(1, other, [18.5])])
    prediction = designer.predict([default_config(), other])

    assert math.log(19.0) < prediction.mean_log_step_ms[1] < math.log(20.0)


def test_a_clear_difference_is_kept() -> None:
    """Without noise the means stand."""
    designer = RandomDesigner(SPACE, 0)

    designer.update([measured_trial(0, default_config(), [20.0] * 3), measured_trial(1, poor_baseline(), [40.0] * 3)])
    prediction = designer.predict([default_config(), poor_baseline()])

    assert pytest.approx([math.log(20.0), math.log(40.0)], abs=0.01) == list(prediction.mean_log_step_ms)


def test_predicting_without_samples_is_an_error() -> None:
    """Without a valid sample there is no mean to predict."""
    with pytest.raises(ValueError, match="no valid sample"):
        RandomDesigner(SPACE, 0).predict([default_config()])
