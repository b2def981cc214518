# SPDX-License-Identifier: Apache-2.0
"""Tests of the methods that designers share."""

import math

import numpy as np
import pytest

from ringtune.tuner import Prediction, default_config
from ringtune.tuner.designers.base import bytes_per_step, expected_suggestion
from ringtune.tuner.testing import GRADIENT_BYTES, measured_trial


def test_bytes_per_step_come_back_from_score_and_mean() -> None:
    """The score is bytes over the mean step time."""
    assert pytest.approx(GRADIENT_BYTES) == bytes_per_step([measured_trial(0, default_config(), [20.0])])
    assert None is bytes_per_step([])


def test_an_expectation_is_in_bytes_per_second() -> None:
    """A predicted step of 10 ms, give or take 5 %, is a score of bytes per 10 ms, give or take 5 %."""
    trials = [measured_trial(0, default_config(), [20.0])]

    suggestion = expected_suggestion(default_config(), trials, Prediction(np.array([math.log(10.0)]), np.array([0.05])))

    assert pytest.approx((GRADIENT_BYTES / 0.01, GRADIENT_BYTES / 0.01 * 0.05)) == (
        suggestion.expected_score,
        suggestion.expected_std,
    )
