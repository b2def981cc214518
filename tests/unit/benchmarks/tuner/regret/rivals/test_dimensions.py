# SPDX-License-Identifier: Apache-2.0
"""A space without special values is the same space: every config has a point, and comes back from it."""

import numpy as np

from benchmarks.tuner.regret.rivals.dimensions import NUMBER, Range, config_at, dimensions_of, point_of
from ringtune.tuner import default_config, search_space

SPACE = search_space({}, default_config())


def test_a_special_value_is_a_choice_beside_the_number() -> None:
    """The number keeps its own range and scale."""
    dimensions = dimensions_of(SPACE)

    assert (NUMBER, "auto") == dimensions["chunk_bytes is"]
    number = dimensions["chunk_bytes"]
    assert isinstance(number, Range)
    assert number.is_log


def test_configs_come_back_from_their_points() -> None:
    """A config of special values, numbers, switches and categories comes back from its point."""
    rng = np.random.default_rng(0)

    for config in [SPACE.default(), *(SPACE.random(rng) for _ in range(200))]:
        point = point_of(SPACE, config)

        assert list(dimensions_of(SPACE)) == sorted(point, key=list(dimensions_of(SPACE)).index)
        assert config == config_at(SPACE, point)


def test_what_is_fixed_has_no_dimension() -> None:
    """A fixed parameter keeps its value and has no dimension."""
    space = search_space({"cycle_ms": 3.0}, default_config().replace({"cycle_ms": 3.0}))

    assert "cycle_ms" not in dimensions_of(space)
    assert 3.0 == config_at(space, point_of(space, space.default()))["cycle_ms"]
