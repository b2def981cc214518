# SPDX-License-Identifier: Apache-2.0
"""Tests of the start: in time, legal, tried once, and told from the designer's suggestions."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from ringtune.client import ServiceUnavailableError
from ringtune.tuner import SearchSpace, SpaceError, Trial, default_config, engine_parameters, make_designer
from ringtune.tuner.space.parameters import FIRST_KNOBS
from ringtune.tuning.service_link.first_config import FirstConfigDesigner, answer_within, legal_config

SPACE = SearchSpace(engine_parameters(), {"hierarchical_allreduce": False, "allreduce_algorithm": "auto"})
OFFER: Mapping[str, Any] = {**default_config(), "fusion_bytes": 1 << 20, "cycle_ms": 2}


def test_a_late_answer_is_not_waited_for() -> None:
    """A late answer is left behind with its thread, whatever holds it up; one in time comes through."""
    release = threading.Event()
    assert 3 == answer_within(5.0, lambda: 3)

    with pytest.raises(ServiceUnavailableError, match="within 0.1 s"):
        answer_within(0.1, release.wait)

    release.set()


def test_knobs_that_are_fixed_here_keep_their_values_and_unknown_ones_are_ignored() -> None:
    """An offer from another layout or a later version keeps the knobs that are fixed here."""
    config = legal_config({**OFFER, "hierarchical_allreduce": True, "new_knob": 7}, SPACE)

    assert config["hierarchical_allreduce"] is False
    assert "new_knob" not in config
    assert SPACE.contains(config)


@pytest.mark.parametrize(
    "change",
    [
        {"fusion_bytes": 1 << 40},
        {"fusion_bytes": -1},
        {"fusion_bytes": 65537.5},
        {"fusion_bytes": True},
        {"cycle_ms": float("nan")},
        {"cycle_ms": "1.0"},
        {"cycle_ms": None},
        {"response_cache": 1},
        {"allreduce_algorithm": "foreign"},
        {"hierarchical_allreduce": "yes"},
    ],
)
def test_one_value_outside_of_the_box_refuses_the_whole_offer(change: dict[str, Any]) -> None:
    """A value of a knob that is fixed here counts, too."""
    with pytest.raises(SpaceError):
        legal_config({**OFFER, **change}, SPACE)


def test_an_offer_that_lacks_a_free_knob_is_refused() -> None:
    """An offer without a free knob was made for another space."""
    with pytest.raises(SpaceError, match="cycle_ms"):
        legal_config({name: value for name, value in OFFER.items() if name != "cycle_ms"}, SPACE)


def test_a_knob_that_the_service_does_not_know_has_its_default() -> None:
    """An offer of an older service lacks knobs that came later: it was measured under their defaults."""
    older = {name: value for name, value in OFFER.items() if name in FIRST_KNOBS}

    config = legal_config(older, SPACE)

    assert len(older) < len(config)
    assert legal_config(OFFER, SPACE) == config


def test_the_offer_is_suggested_first_and_once() -> None:
    """The designer goes on after the offer, whose name names its source."""
    config = legal_config(OFFER, SPACE)
    designer = FirstConfigDesigner(make_designer("random", SPACE, 1), config)

    designer.update([])
    first, first_name = designer.suggest(), designer.name
    designer.update([])
    second, second_name = designer.suggest(), designer.name

    assert (config, "service") == (first.config, first_name)
    assert config != second.config
    assert "random" == second_name


def test_an_offer_that_was_tried_before_is_not_tried_again() -> None:
    """A resumed run, or one whose baseline is the offer, does not try it again."""
    config = legal_config(OFFER, SPACE)
    designer = FirstConfigDesigner(make_designer("random", SPACE, 1), config)

    designer.update([Trial(0, config)])

    assert config != designer.suggest().config
    assert "random" == designer.name
