# SPDX-License-Identifier: Apache-2.0
"""Plain data through JSON and back."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ringtune.errors import ConfigError
from ringtune.torch.codec import MAX_DEPTH, decode, encode

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


def no_tensor(number: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """Fail: the data holds no tensors."""
    raise AssertionError((number, dtype, shape))


@given(plain_data)
def test_plain_data_survives_with_its_types(value: Any) -> None:
    """Values and types come back, floats to the last bit, tuples as tuples, keys as they were."""
    text, tensors = encode(value)

    restored = decode(text, no_tensor)

    assert [] == tensors
    assert repr(value) == repr(restored)


@pytest.mark.parametrize("value", [math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2])
def test_awkward_floats_survive(value: float) -> None:
    """Infinities, signed zero, denormals and the last bit."""
    assert value.hex() == decode(encode(value)[0], no_tensor).hex()


def test_not_a_number_survives() -> None:
    """NaN comes back as NaN."""
    assert math.isnan(decode(encode(math.nan)[0], no_tensor))


def test_tensors_travel_apart_in_order() -> None:
    """The text says dtype and shape of each tensor; the receiver makes them in the order of their numbers."""
    first, second = torch.ones(2, 3), torch.ones(1, dtype=torch.int64)
    made: list[tuple[int, torch.dtype, tuple[int, ...]]] = []

    def make(number: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        made.append((number, dtype, shape))
        return torch.zeros(shape, dtype=dtype)

    text, tensors = encode({"state": {0: first}, "steps": [second]})
    restored = decode(text, make)

    assert [first.data_ptr(), second.data_ptr()] == [tensor.data_ptr() for tensor in tensors]
    assert [(0, torch.float32, (2, 3)), (1, torch.int64, (1,))] == made
    assert (1,) == tuple(restored["steps"][0].shape)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", 1j, print, torch.zeros(1, dtype=torch.complex64)])
def test_anything_else_is_refused(value: object) -> None:
    """What has no place in the table is an error that names its type."""
    with pytest.raises(ConfigError, match="cannot be sent"):
        encode([value])


def test_endless_nesting_is_refused() -> None:
    """Data that holds itself is an error and not a crash."""
    value: list[Any] = []
    value.append(value)

    with pytest.raises(ConfigError, match=f"{MAX_DEPTH} deep"):
        encode(value)


@given(st.binary(max_size=40))
def test_foreign_text_is_an_error(text: bytes) -> None:
    """Text that is not from encode gives data or an error of ours."""
    try:
        decode(text, lambda number, dtype, shape: torch.zeros(0))
    except ConfigError:
        return
