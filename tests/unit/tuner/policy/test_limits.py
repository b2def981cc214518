# SPDX-License-Identifier: Apache-2.0
"""The steps that a budget leaves: by the job's pace, and by the default's steps, of which half of the test consists."""

import math

import pytest

from ringtune.tuner import RunSettings
from ringtune.tuner.policy.limits import steps_left_by_limit
from ringtune.tuner.policy.pace import PLANNED_SHARE, Pace


def paced(steps: int, step_s: float) -> Pace:
    """Return the pace of a run after one window."""
    now_s = 0.0
    pace = Pace(lambda: now_s)
    now_s = steps * step_s
    pace.note(steps, None)
    return pace


@pytest.mark.parametrize(
    ("baseline_s", "is_launched", "expected"),
    [(0.1, False, 450), (0.2, False, 450), (1.8, False, 50), (1.8, True, 450)],
    ids=["a faster default", "the same", "a slower default", "launches"],
)
def test_seconds_are_steps_of_the_slower_of_default_and_pace(
    baseline_s: float, is_launched: bool, expected: int
) -> None:
    """Times of 100 s, of which 5 are gone, plan 95 at the slower of the default's step and the launches' pace."""
    settings = RunSettings(max_samples=None, max_seconds=100.0, fixed_windows=is_launched)

    left = steps_left_by_limit(settings, paced(25, 0.2), elapsed_s=100.0 * PLANNED_SHARE - 90.0, baseline_s=baseline_s)

    assert {"steps": math.inf, "seconds": pytest.approx(expected)} == left


def test_the_least_number_of_steps_outlives_the_seconds() -> None:
    """A least number of 200 steps leaves 175 after 25, even when all seconds are gone."""
    settings = RunSettings(max_samples=None, max_seconds=100.0, least_steps=200)

    left = steps_left_by_limit(settings, paced(25, 8.0), elapsed_s=200.0, baseline_s=8.0)

    assert {"steps": math.inf, "seconds": 175} == left


def test_without_a_pace_seconds_set_no_limit() -> None:
    """Before the first window; steps do."""
    settings = RunSettings(max_samples=None, max_steps=300, max_seconds=100.0)

    assert {"steps": 300, "seconds": math.inf} == steps_left_by_limit(settings, Pace(lambda: 0.0), 0.0, 0.0)
