# SPDX-License-Identifier: Apache-2.0
"""The grid designer tries the configs of a patient person, in that order."""

import math

from benchmarks.tuner.regret.rivals.grid import SHARES, GridDesigner
from ringtune.tuner import Config, default_config, search_space
from ringtune.tuner.testing import engine_like_surface
from tests.unit.benchmarks.tuner.regret.rivals.asking import asked

SPACE = search_space({}, default_config())


def searched(rounds: int) -> list[Config]:
    """Return the suggestions after the baseline."""
    return asked(GridDesigner(SPACE, 0), rounds, engine_like_surface, [default_config()])


def test_numbers_come_first_from_the_middle_outwards() -> None:
    """All combinations of two numbers, all else at its default."""
    suggested = searched(len(SHARES) ** 2)

    pairs = [(config["fusion_bytes"], config["cycle_ms"]) for config in suggested]
    assert len(set(pairs)) == len(SHARES) ** 2
    assert {default_config()["response_cache"]} == {config["response_cache"] for config in suggested}
    assert math.isclose(math.sqrt(0.05 * 50), float(suggested[0]["cycle_ms"]), rel_tol=0.01)


def test_then_one_switch_is_changed() -> None:
    """The numbers are gone through again after one switch is changed."""
    suggested = searched(2 * len(SHARES) ** 2)

    again = suggested[len(SHARES) ** 2 :]
    assert {not default_config()["response_cache"]} == {config["response_cache"] for config in again}
