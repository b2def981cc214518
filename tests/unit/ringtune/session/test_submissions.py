# SPDX-License-Identifier: Apache-2.0
"""Checks of front ends before anything is submitted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune import _engine
from ringtune.errors import ConfigError
from ringtune.session.submissions import (
    DTYPES,
    REDUCIBLE,
    Adasum,
    Average,
    Max,
    Min,
    Product,
    ReduceOp,
    Reduction,
    Sum,
    check_reduction,
    check_splits,
    reduction_of,
    scattered_rows,
)


def test_the_numbers_are_horovods() -> None:
    """Programs may pass numbers they have stored."""
    assert [0, 1, 2, 3, 4, 5] == [Average, Sum, Adasum, Min, Max, Product]


@pytest.mark.parametrize(
    ("average", "op", "expected"),
    [(None, None, Average), (True, None, Average), (False, None, Sum), (None, Max, Max), (None, 5, Product)],
)
def test_both_spellings_of_the_operation_are_understood(
    average: bool | None, op: int | None, expected: ReduceOp
) -> None:
    """`average` is the older spelling; a number is as good as the name."""
    assert Reduction(expected, 2.0, 0.5) == reduction_of(average, op, 2, 0.5)


@pytest.mark.parametrize(("average", "op", "word"), [(True, Sum, "not both"), (None, 6, "op=6"), (None, -1, "op=-1")])
def test_an_operation_that_is_none_is_refused(average: bool | None, op: int, word: str) -> None:
    """The error has the given value."""
    with pytest.raises(ConfigError, match=word):
        reduction_of(average, op)


def test_the_dtypes_are_the_engines() -> None:
    """The engine's numbers are positions in this list, and the first ones are those that it computes with."""
    assert _engine.DTYPES == DTYPES
    assert DTYPES[: len(REDUCIBLE)] == REDUCIBLE


@pytest.mark.parametrize("name", DTYPES[len(REDUCIBLE) :])
@pytest.mark.parametrize("op", list(ReduceOp))
def test_what_is_only_moved_is_not_reduced(name: str, op: ReduceOp) -> None:
    """The error is a TypeError that names the types that can be reduced."""
    with pytest.raises(TypeError, match=f"allreduce does not support {name}; it supports uint8, int8"):
        check_reduction("allreduce", DTYPES.index(name), Reduction(op))


@pytest.mark.parametrize("name", REDUCIBLE)
@pytest.mark.parametrize("op", list(ReduceOp))
def test_each_dtype_takes_the_operations_that_mean_something(name: str, op: ReduceOp) -> None:
    """Adasum is for floats; bool has no average; all else goes."""
    is_float = "float" in name
    is_supported = is_float if op is Adasum else name != "bool" or op is not Average

    if is_supported:
        check_reduction("allreduce", DTYPES.index(name), Reduction(op))
        return
    with pytest.raises(ConfigError, match=f"{op.name.title()} does not support {name}"):
        check_reduction("allreduce", DTYPES.index(name), Reduction(op))


def test_bool_is_not_scaled() -> None:
    """A factor of a truth value has no meaning."""
    with pytest.raises(ConfigError, match="cannot scale bool"):
        check_reduction("allreduce", DTYPES.index("bool"), Reduction(Sum, 2.0))


def test_equal_splits_are_the_default() -> None:
    """Without splits each rank gets as many rows."""
    assert [2, 2, 2] == check_splits(None, 6, 3)
    with pytest.raises(ConfigError, match="cannot split 7 rows"):
        check_splits(None, 7, 3)


@pytest.mark.parametrize("splits", [[1, 2], [1, 2, 3, 0], [1, 1, 1], [-1, 4, 3]])
def test_splits_that_do_not_fit_are_refused(splits: list[int]) -> None:
    """One number per rank, none negative, adding up to the rows."""
    with pytest.raises(ConfigError, match="do not fit"):
        check_splits(splits, 6, 3)


@pytest.mark.parametrize("splits", [[1.0, 2.0, 3.0], ["1", "2", "3"], 6, [[1], [2], [3]]])
def test_splits_that_are_no_whole_numbers_are_a_type_error(splits: Any) -> None:
    """A fraction is not rounded."""
    with pytest.raises(TypeError, match="needs whole numbers"):
        check_splits(splits, 6, 3)


@given(rows=st.integers(0, 1000), world_size=st.integers(1, 16))
def test_scattered_rows_are_all_rows(rows: int, world_size: int) -> None:
    """Each row is kept by one rank, and earlier ranks keep as many as later ones or one more."""
    kept = [scattered_rows(rows, rank, world_size) for rank in range(world_size)]

    assert rows == sum(kept)
    assert sorted(kept, reverse=True) == kept
    assert max(kept) - min(kept) <= 1
