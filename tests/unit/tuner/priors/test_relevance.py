# SPDX-License-Identifier: Apache-2.0
"""Distances between studies."""

import math
from dataclasses import replace

import pytest

from ringtune.tuner.priors.relevance import MAX_DISTANCE, StudyKey, TensorSet, distance

KEY = StudyKey("a" * 64, "b" * 64, (2,))
OTHER_MODEL, OTHER_HARDWARE = "c" * 64, "d" * 64
SMALL = TensorSet(40_000_000, 10)


@pytest.mark.parametrize(
    ("found", "tensors", "expected"),
    [
        (KEY, None, 0.0),
        (replace(KEY, layout=(4,)), None, 1.0),
        (replace(KEY, layout=(2, 2)), None, 1.0 + 1.0 + 1.0),
        (replace(KEY, hardware=OTHER_HARDWARE), None, 4.0),
        (replace(KEY, model=OTHER_MODEL), TensorSet(80_000_000, 40), 2.0 + 1.0 + 1.0),
        (replace(KEY, model=OTHER_MODEL, hardware=OTHER_HARDWARE), SMALL, math.inf),
        (replace(KEY, target="torch-ddp"), None, math.inf),
        (replace(KEY, surface_version=2), None, math.inf),
        (replace(KEY, layout=()), None, math.inf),
        (replace(KEY, layout=(1024,)), None, 9.0),
    ],
)
def test_the_distance_is_the_sum_of_the_differences(
    found: StudyKey, tensors: TensorSet | None, expected: float
) -> None:
    """The distance follows the table in the module, in both directions."""
    assert expected == distance(KEY, found, SMALL, tensors)
    assert expected == distance(found, KEY, tensors, SMALL)


def test_another_model_of_unknown_size_recommends_nothing() -> None:
    """The distance is above that of any recommendation; as a prior it still has its place."""
    found = distance(KEY, replace(KEY, model=OTHER_MODEL), SMALL, None)

    assert MAX_DISTANCE < found < math.inf


@pytest.mark.parametrize("layout", [None, "2", [0], [2, "2"], [True]])
def test_a_layout_that_cannot_be_is_empty(layout: object) -> None:
    """A log of another job may have any JSON in its key."""
    key = StudyKey.from_json({"hardware": "h", "model": "m", "layout": layout, "surface_version": "new"})

    assert ((), 0, ("ringtune", 0)) == (key.layout, key.world_size, key.surface)
