# SPDX-License-Identifier: Apache-2.0
"""The grid of a recorded surface."""

import pytest

from ringtune.errors import ConfigError
from ringtune.measuring.bench.surface_grid import Grid, grid_configs, turns
from ringtune.tuner.space.parameters import MIB, default_config

ALGORITHMS = ("direct", "reduce_scatter_allgather")
SMALL = Grid((0, 4 * MIB), (0.5, 1.0, 5.0))


def test_the_default_comes_first_and_once() -> None:
    """Though the grid's numbers leave one of its values out."""
    configs = grid_configs(SMALL, (2,), ALGORITHMS)

    assert default_config() == configs[0]
    assert len(set(configs)) == len(configs)


def test_one_host_varies_the_algorithm() -> None:
    """Every algorithm but the one for small messages is in the grid of one host; knobs between hosts do not vary."""
    configs = grid_configs(SMALL, (2,), ALGORITHMS)

    assert {"auto", "reduce_scatter_allgather"} == {config["allreduce_algorithm"] for config in configs}
    assert {False} == {config["hierarchical_allreduce"] for config in configs}
    assert 3 * 3 * 2 == len(configs)


def test_several_hosts_vary_the_hierarchy() -> None:
    """The algorithms are for the ranks of one host."""
    configs = grid_configs(SMALL, (2, 2), ALGORITHMS)

    assert {"auto"} == {config["allreduce_algorithm"] for config in configs}
    assert {False, True} == {config["hierarchical_allreduce"] for config in configs}


def test_hosts_of_one_rank_vary_neither() -> None:
    """A host with one rank has no reduction inside it."""
    assert 3 * 3 == len(grid_configs(SMALL, (1, 1), ALGORITHMS))


def test_values_that_are_not_legal_are_refused() -> None:
    """The refusal has name, value and range."""
    with pytest.raises(ConfigError, match=r"cycle_ms=99.0 is not allowed; allowed: 0.05 to 50"):
        grid_configs(Grid((0,), (99.0,)), (2,), ALGORITHMS)


def test_each_repeat_has_an_order_of_its_own() -> None:
    """All configs in it, and the same whenever it is asked for."""
    configs = grid_configs(SMALL, (2,), ALGORITHMS)

    first, second = turns(configs, 0), turns(configs, 1)

    assert list(range(len(configs))) == sorted(first) == sorted(second)
    assert first != second
    assert first == turns(configs, 0)
