# SPDX-License-Identifier: Apache-2.0
"""Tests of the search space."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.tuner import (
    BooleanParameter,
    CategoryParameter,
    Config,
    NumberParameter,
    SearchSpace,
    SpaceError,
    default_config,
    engine_parameters,
    search_space,
)

SPACE = search_space({}, default_config())
WIDE = SearchSpace(engine_parameters(("ring", "tree")), {})


@given(st.lists(st.floats(0, 1), min_size=len(WIDE.parameters), max_size=len(WIDE.parameters)))
def test_round_trip_of_every_config(quantiles: list[float]) -> None:
    """Encoding and decoding gives the same config, in the unit box, which the space accepts."""
    config = WIDE.at_quantiles(quantiles)

    vector = WIDE.encode(config)

    assert (WIDE.dimension,) == vector.shape
    assert np.all((vector >= 0) & (vector <= 1))
    assert config == WIDE.decode(vector) == WIDE.validate(config)


@pytest.mark.parametrize("count", [0, 1, 50])
def test_many_configs_are_encoded_as_each_is(count: int) -> None:
    """A row each; none of none, and where no parameter is free a row is empty."""
    rng = np.random.default_rng(count)
    configs = [WIDE.random(rng) for _ in range(count)]
    single = SearchSpace(engine_parameters(), default_config())

    rows = WIDE.encode_all(configs)

    assert (len(configs), WIDE.dimension) == rows.shape
    assert all(np.array_equal(WIDE.encode(config), row) for config, row in zip(configs, rows, strict=True))
    assert (2, 0) == single.encode_all([default_config()] * 2).shape


@given(st.integers(0, 2**32 - 1))
def test_random_configs_are_legal_and_reproducible(seed: int) -> None:
    """A seed gives one legal config."""
    first, second = (SPACE.random(np.random.default_rng(seed)) for _ in range(2))

    assert first == second
    assert SPACE.contains(first)


def test_random_configs_cover_special_values_and_decades() -> None:
    """Some of 200 random configs have no fusion, some are automatic, and sizes spread over the octaves."""
    rng = np.random.default_rng(0)
    configs = [SPACE.random(rng) for _ in range(200)]

    off = sum(config["fusion_bytes"] == 0 for config in configs)
    small = sum(0 < float(config["fusion_bytes"]) <= 4 << 20 for config in configs)

    assert 15 <= off <= 50
    assert 60 <= small <= 110
    assert any(config["chunk_bytes"] == "auto" for config in configs)


def test_fixed_parameters_are_no_coordinates() -> None:
    """A parameter that the user fixed is neither encoded nor varied."""
    space = SearchSpace(engine_parameters(), {"fusion_bytes": 0, "cycle_ms": 2})

    assert "fusion_bytes" not in {parameter.name for parameter in space.free}
    assert WIDE.dimension - 3 - 3 + 1 == space.dimension
    assert {(0, 2.0)} == {
        (c["fusion_bytes"], c["cycle_ms"]) for c in (space.random(np.random.default_rng(i)) for i in range(9))
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cycle_ms": 51.0}, "cycle_ms=51.0 is not allowed; allowed: 0.05 to 50"),
        ({"hierarchical_allreduce": True}, "hierarchical_allreduce=True is not allowed; it is fixed to False"),
        ({"colour": 1}, r"unknown \[colour\]"),
    ],
)
def test_validate_says_what_is_wrong(change: dict[str, Any], message: str) -> None:
    """Out of range, off a fixed value, unknown: each is named."""
    with pytest.raises(SpaceError, match=message):
        SPACE.validate(default_config().replace(change))


def test_validate_names_missing_parameters() -> None:
    """A config must have a value for every parameter."""
    with pytest.raises(SpaceError, match=r"lacks \[cycle_ms"):
        SPACE.validate(Config({"fusion_bytes": 0}))


def test_validate_writes_values_as_their_kind_does() -> None:
    """An integer cycle time becomes a float, so that equal configs look equal in the log."""
    config = SPACE.validate(default_config().replace({"cycle_ms": 2}))

    assert "2.0" == repr(config["cycle_ms"])


@pytest.mark.parametrize("vector", [[0.5], [float("nan")] * SPACE.dimension, [float("inf")] * SPACE.dimension])
def test_decode_refuses_wrong_lengths_and_non_finite_numbers(vector: list[float]) -> None:
    """Such a vector is a bug of its maker."""
    with pytest.raises(SpaceError):
        SPACE.decode(vector)


def test_unknown_fixed_name_is_refused() -> None:
    """A fixed value for no parameter is named."""
    with pytest.raises(SpaceError, match="fusion_byte: no such parameter"):
        SearchSpace(engine_parameters(), {"fusion_byte": 0})


def test_configs_are_counted_where_no_fractional_number_is_free() -> None:
    """Fixed parameters have one value; a search of few configs ends when it has them all."""
    switch, name = (
        BooleanParameter("response_cache", True),
        CategoryParameter("allreduce_algorithm", ("a", "b", "c"), "a"),
    )

    assert 6 == SearchSpace((switch, name), {}).config_count
    assert 3 == SearchSpace((switch, name), {"response_cache": True}).config_count
    assert math.inf == SPACE.config_count


@pytest.mark.parametrize(
    ("number", "count"),
    [
        (NumberParameter("n", 1, 4, 2, step=1), 4),
        (NumberParameter("n", 1, 64, 2, step=1, scale="log2"), 64),
        (NumberParameter("n", 0, 100, 7, step=10), 12),
        (NumberParameter("n", 4, 16, "auto", step=4, special=("auto",)), 5),
        (NumberParameter("n", 0.5, 4.0, 2.0), math.inf),
    ],
)
def test_values_that_a_search_can_reach_are_counted(number: NumberParameter, count: float) -> None:
    """Those of the grid, special ones, and a default beside the grid; a fraction has values without number."""
    assert count == number.count
    if not math.isinf(count):
        reached = {number.at_quantile(quantile) for quantile in np.linspace(0.0, 1.0, 5000)}
        assert count == len({*reached, number.default})


def test_description_round_trip() -> None:
    """A space is rebuilt from its JSON, with its fixed values."""
    rebuilt = SearchSpace.from_json(json.loads(json.dumps(SPACE.to_json())))

    assert SPACE.to_json() == rebuilt.to_json()
    assert SPACE.free == rebuilt.free


@pytest.mark.parametrize("data", [{}, {"parameters": [], "fixed": {"x": 1}}, {"parameters": [3], "fixed": {}}])
def test_a_foreign_description_is_refused(data: dict[str, Any]) -> None:
    """A description of no space is a SpaceError."""
    with pytest.raises(SpaceError):
        SearchSpace.from_json(data)
