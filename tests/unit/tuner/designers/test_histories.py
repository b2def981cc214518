# SPDX-License-Identifier: Apache-2.0
"""Registered designers in random spaces, after random histories: the next config is always legal."""

import pytest

from ringtune.tuner import designer_names, make_designer
from tests.unit.tuner.designers.histories import check_histories, short_and_long

HISTORIES = {
    "gp": (60, 20_000),
    "random": (300, 60_000),
    "skopt": (15, 3_000),
    "optuna:tpe": (20, 2_000),
    "optuna:cmaes": (20, 2_000),
    "optuna:gp": (5, 300),
    "optuna:random": (20, 2_000),
}
"""Number of histories by designer: the short form, and the long one."""


def test_every_registered_designer_has_its_histories() -> None:
    """A new registry entry needs a row above."""
    assert sorted(HISTORIES) == sorted(designer_names())


@pytest.mark.parametrize(("name", "count"), short_and_long(HISTORIES))
def test_whatever_has_happened_the_next_config_is_legal(name: str, count: int) -> None:
    """The expectations of it, and of every measured config, are finite."""
    check_histories(name, lambda space, seed: make_designer(name, space, seed), count)
