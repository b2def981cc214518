# SPDX-License-Identifier: Apache-2.0
"""Tests of the model of configs that fail."""

import numpy as np

from ringtune.tuner.gp.feasibility import Feasibility


def test_it_learns_which_knob_made_configs_fail() -> None:
    """The first of three knobs decides; configs that were not tried are told apart, whatever the others are."""
    rng = np.random.default_rng(0)
    tried, unseen = rng.random((24, 3)), rng.random((200, 3))
    model = Feasibility(tried[tried[:, 0] <= 0.6], tried[tried[:, 0] > 0.6])

    probability = model.probability(unseen)

    assert probability[unseen[:, 0] > 0.75].max() < 0.5 < probability[unseen[:, 0] < 0.45].min()


def test_a_single_failure_rules_out_its_neighbours_alone() -> None:
    """Configs far from it are uncertain, and a config that worked goes on to work."""
    model = Feasibility(np.array([[0.0, 0.0], [0.1, 0.9]]), np.array([[1.0, 1.0]]))

    near, far, worked = model.probability(np.array([[0.98, 0.98], [1.0, 0.0], [0.0, 0.0]]))

    assert near < far < worked
    assert 0.0 < near < 0.2
    assert worked > 0.8
