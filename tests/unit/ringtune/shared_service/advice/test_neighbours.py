# SPDX-License-Identifier: Apache-2.0
"""Gains that a config should have at another layout."""

import pytest

from ringtune.shared_service.advice.neighbours import adapted, corrected_gains
from tests.unit.service.domain.reported import BETTER, DEFAULT


def test_a_layout_without_hierarchy_has_no_hierarchical_switch() -> None:
    """Other targets' configs stay as they are."""
    hierarchical = DEFAULT.replace({"hierarchical_allreduce": True})

    assert DEFAULT == adapted(hierarchical, (4,), "ringtune")
    assert hierarchical == adapted(hierarchical, (4, 4), "ringtune")
    assert hierarchical == adapted(hierarchical, (4,), "openmpi")


def test_a_gain_of_a_switch_is_taken_off_where_it_cannot_act() -> None:
    """There it ran with the switch, here it runs as the default: the switch's predicted gain there is taken off."""
    hierarchical = DEFAULT.replace({"hierarchical_allreduce": True})
    known = {"gradient_bytes": (4_000_000,) * 40, "baselines": [DEFAULT], "default_step_ms": 100.0}

    there_and_back = [
        corrected_gains([config], [0.3], layouts=((8, 8), (8,)), **known)[0]  # type: ignore[arg-type]
        for config in (hierarchical, DEFAULT)
    ]

    assert 0.3 == there_and_back[1]
    assert there_and_back[0] != pytest.approx(0.3, abs=1e-3)


def test_the_cost_model_says_what_a_layout_changes() -> None:
    """Small messages gain less where there is a network between hosts: each one waits for the link."""
    many_messages = DEFAULT.replace({"fusion_bytes": 0})
    sizes = (100_000,) * 400

    here, there = corrected_gains(
        [many_messages, BETTER],
        [0.1, 0.1],
        gradient_bytes=sizes,
        layouts=((2,), (1,) * 16),
        baselines=[DEFAULT, DEFAULT],
        default_step_ms=50.0,
    )

    assert here < 0.1
    assert here < there
    for layouts, known in ((((2,), (2,)), sizes), (((1,), (2,)), sizes), (((2,), (4,)), ())):
        unchanged = corrected_gains(
            [BETTER], [0.1], gradient_bytes=known, layouts=layouts, baselines=[DEFAULT], default_step_ms=None
        )
        assert (0.1,) == unchanged


def test_a_gain_is_moved_with_the_baseline_that_it_is_over() -> None:
    """The gain over many messages includes their extra time on the network, besides the gain over the default."""
    many_messages = DEFAULT.replace({"fusion_bytes": 0})
    known = {"gradient_bytes": (100_000,) * 400, "layouts": ((2,), (1,) * 16), "default_step_ms": 50.0}

    over_default, over_many, itself = (
        corrected_gains([config], [0.1], baselines=[baseline], **known)[0]  # type: ignore[arg-type]
        for config, baseline in ((BETTER, DEFAULT), (BETTER, many_messages), (BETTER, BETTER))
    )

    assert over_default < over_many
    assert 0.1 == pytest.approx(itself)
