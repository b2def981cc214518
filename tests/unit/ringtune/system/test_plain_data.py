# SPDX-License-Identifier: Apache-2.0
"""Plain data through JSON and back."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.errors import ConfigError
from ringtune.system.plain_data import MAX_DEPTH, Leaf, decode, encode

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
plain_data = st.recursive(
    scalars,
    lambda children: (
        st.lists(children, max_size=3)
        | st.lists(children, max_size=3).map(tuple)
        | st.dictionaries(st.integers() | st.text(max_size=4) | st.tuples(st.integers()), children, max_size=3)
    ),
    max_leaves=10,
)


def make_nothing(number: int, leaf: Leaf) -> Any:
    """Fail: the data holds no leaves."""
    raise AssertionError((number, leaf))


def fraction_leaf(value: Any) -> Leaf | None:
    """Take fractions for leaves."""
    return Leaf("fraction", "int64", (2,)) if isinstance(value, Fraction) else None


@given(plain_data)
def test_plain_data_survives_with_its_types(value: Any) -> None:
    """Values and types come back, floats to the last bit, tuples as tuples, keys as they were."""
    text, leaves = encode(value, fraction_leaf)

    restored = decode(text, make_nothing)

    assert [] == leaves
    assert repr(value) == repr(restored)


@pytest.mark.parametrize("value", [math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2])
def test_awkward_floats_survive(value: float) -> None:
    """Infinities, signed zero, denormals and the last bit."""
    assert value.hex() == decode(encode(value, fraction_leaf)[0], make_nothing).hex()


def test_not_a_number_survives() -> None:
    """NaN comes back as NaN."""
    assert math.isnan(decode(encode(math.nan, fraction_leaf)[0], make_nothing))


def test_leaves_travel_apart_in_order() -> None:
    """The text describes each leaf; the receiver makes them in the order of their numbers."""
    first, second = Fraction(1, 2), Fraction(3, 4)

    text, leaves = encode({"state": {0: first}, "rest": [second]}, fraction_leaf)
    restored = decode(text, lambda number, leaf: (number, leaf))

    assert [first, second] == leaves
    described = Leaf("fraction", "int64", (2,))
    assert {"state": {0: (0, described)}, "rest": [(1, described)]} == restored


def test_an_error_about_a_leaf_says_what_is_wrong_with_it() -> None:
    """The receiver's own words are not wrapped into "cannot be read"."""
    text, _ = encode(Fraction(1, 2), fraction_leaf)

    def refuse(number: int, leaf: Leaf) -> Any:
        raise ConfigError(f"leaf {number} of {leaf.dtype} is unknown here")

    with pytest.raises(ConfigError, match="^leaf 0 of int64 is unknown here"):
        decode(text, refuse)


@pytest.mark.parametrize("value", [object(), memoryview(b""), print])
def test_anything_else_is_refused(value: object) -> None:
    """A type that is missing in the table is an error that names it."""
    with pytest.raises(ConfigError, match="cannot be sent"):
        encode([value], fraction_leaf)


def test_endless_nesting_is_refused() -> None:
    """Data that holds itself is an error and not a crash."""
    value: list[Any] = []
    value.append(value)

    with pytest.raises(ConfigError, match=f"{MAX_DEPTH} deep"):
        encode(value, fraction_leaf)


@given(st.binary(max_size=40))
def test_foreign_text_is_an_error(text: bytes) -> None:
    """Text that is not from encode gives data or an error of ours."""
    try:
        decode(text, lambda number, leaf: None)
    except ConfigError:
        return
