# SPDX-License-Identifier: Apache-2.0
"""Tests of the kinds of parameters: checking, encoding, decoding."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.tuner import (
    ENGINE_PARAMETERS,
    BooleanParameter,
    CategoryParameter,
    NumberParameter,
    Parameter,
    SpaceError,
)
from ringtune.tuner.space.parameter_types import NEUTRAL, parameter_from_json

BY_NAME = {parameter.name: parameter for parameter in ENGINE_PARAMETERS}
FUSION, CYCLE, CHUNK = (BY_NAME[name] for name in ("fusion_bytes", "cycle_ms", "chunk_bytes"))
ORDERED = CategoryParameter("tile", ("unset", "8", "1", "4", "2"), "unset")
KINDS = [*ENGINE_PARAMETERS, CategoryParameter("algorithm", ("ring", "tree", "flat"), "ring"), ORDERED]


@pytest.mark.parametrize("value", [0, 65536, 100_000, 256 << 20, 1e6])
def test_numbers_in_range_and_special_ones_are_accepted(value: float) -> None:
    """Bounds are allowed, a special value is, and any integer between, also when written as a float."""
    checked = FUSION.check(value)

    assert value == checked
    assert isinstance(checked, int)


@pytest.mark.parametrize(
    "value", [1, -1, 65535, (256 << 20) + 1, math.nan, math.inf, 70000.5, "65536", None, True, [1]]
)
def test_anything_else_is_refused_with_value_and_range(value: object) -> None:
    """The message names the parameter, the value and the allowed values."""
    with pytest.raises(SpaceError) as caught:
        FUSION.check(value)

    assert f"fusion_bytes={value!r} is not allowed; allowed: 0 or 65536 to 268435456" == str(caught.value)


def test_false_is_not_taken_for_a_special_zero() -> None:
    """A switch is not a number, though Python says that they are equal."""
    with pytest.raises(SpaceError):
        FUSION.check(False)


@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_booleans_are_only_booleans(value: object) -> None:
    """Zero and one are numbers."""
    with pytest.raises(SpaceError):
        BooleanParameter("response_cache", default=True).check(value)


@pytest.mark.parametrize("value", ["rings", "", 1, None])
def test_categories_are_only_their_choices(value: object) -> None:
    """An unknown name is refused."""
    with pytest.raises(SpaceError, match="allowed: ring, tree"):
        CategoryParameter("algorithm", ("ring", "tree"), "ring").check(value)


def test_a_special_value_has_its_indicator() -> None:
    """Beside it a number beyond the range stands at the range's end, and a word in the middle."""
    unlimited = NumberParameter("limit", 1, 64, 64, "log2", special=(1000,))

    assert [1.0, 0.0] == FUSION.encode(0)
    assert [1.0, 1.0] == unlimited.encode(1000)
    assert [1.0, NEUTRAL] == CHUNK.encode("auto")
    assert [0.0, 0.0] == FUSION.encode(65536)


def test_equal_factors_are_equal_steps_on_a_log_scale() -> None:
    """Doubling moves the coordinate by the same amount everywhere."""
    shares = [FUSION.encode(65536 << shift)[-1] for shift in (0, 4, 8, 12)]

    assert [0.0, 1 / 3, 2 / 3, 1.0] == pytest.approx(shares)


def test_choices_that_are_numbers_are_ordered() -> None:
    """Their rank is the coordinate, so that powers of two are logarithmic; a word beside them has an indicator."""
    assert [[1.0, NEUTRAL], [0.0, 1.0], [0.0, 0.0], [0.0, 2 / 3], [0.0, 1 / 3]] == [
        pytest.approx(ORDERED.encode(choice)) for choice in ORDERED.choices
    ]
    assert 2 == CategoryParameter("one", ("auto", "1"), "auto").coordinates


@pytest.mark.parametrize("parameter", KINDS, ids=lambda parameter: parameter.name)
@given(quantile=st.floats(0, 1))
def test_decode_inverts_encode(parameter: Parameter, quantile: float) -> None:
    """A value survives the way into the vector and back."""
    value = parameter.at_quantile(quantile)

    assert value == parameter.decode(parameter.encode(value))


@pytest.mark.parametrize("parameter", KINDS, ids=lambda parameter: parameter.name)
@given(data=st.data())
def test_decode_is_always_inside_the_box(parameter: Parameter, data: st.DataObject) -> None:
    """Coordinates of any value decode to an allowed value of the right type."""
    numbers = st.floats(-1e6, 1e6, allow_nan=False)
    coordinates = data.draw(st.lists(numbers, min_size=parameter.coordinates, max_size=parameter.coordinates))

    value = parameter.decode(coordinates)

    assert value == parameter.check(value)


@given(st.floats(0.05, 50.0))
def test_encode_of_any_allowed_number_is_within_the_unit_interval(cycle_ms: float) -> None:
    """A number that decode would round is encoded inside the interval, too."""
    (share,) = CYCLE.encode(cycle_ms)

    assert 0.0 <= share <= 1.0


@pytest.mark.parametrize("parameter", KINDS, ids=lambda parameter: parameter.name)
def test_quantiles_reach_every_special_value_and_both_ends(parameter: Parameter) -> None:
    """Uniform numbers leave out no part of the range."""
    values = {parameter.at_quantile(i / 1000) for i in range(1001)}

    if isinstance(parameter, NumberParameter):
        assert {*parameter.special, parameter.low, parameter.high} <= values
    elif isinstance(parameter, CategoryParameter):
        assert set(parameter.choices) == values
    else:
        assert {False, True} == values


@pytest.mark.parametrize("parameter", KINDS, ids=lambda parameter: parameter.name)
def test_description_round_trip(parameter: Parameter) -> None:
    """A parameter is rebuilt from its JSON."""
    assert parameter == parameter_from_json(json.loads(json.dumps(parameter.to_json())))


@pytest.mark.parametrize("data", [{}, {"kind": "number"}, {"kind": "spline", "name": "x"}, {"kind": "boolean", "q": 1}])
def test_a_foreign_description_is_refused(data: dict[str, object]) -> None:
    """An incomplete or unknown description is a SpaceError."""
    with pytest.raises(SpaceError):
        parameter_from_json(data)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (0.0, 1.0)])
def test_an_impossible_range_is_refused(low: float, high: float) -> None:
    """A range must have an inside, and a logarithmic one must stay above zero."""
    with pytest.raises(SpaceError):
        NumberParameter("x_ms", low, high, 1.0, scale="log")
