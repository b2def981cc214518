# SPDX-License-Identifier: Apache-2.0
"""A collective of a function that is traced, apart from its arrays: operation, names, and the rows of each rank."""

from collections.abc import Sequence
from enum import IntEnum
from itertools import count
from typing import Any, NamedTuple

import jax

from ringtune.errors import ConfigError, WrongTypeError
from ringtune.session.process_sets import ProcessSet
from ringtune.session.submissions import (
    DTYPES,
    PLAIN_AVERAGE,
    Reduction,
    check_reduction,
    reducible_number,
    scattered_rows,
    world_of,
)

_traced_calls = count()


class Kind(IntEnum):
    """Collective operation; the numbers are those of `RingtuneCollective` in `submission_abi.h`."""

    ALLREDUCE = 0
    BROADCAST = 1
    ALLGATHER = 2
    ALLTOALL = 3
    REDUCESCATTER = 4


_REDUCING = frozenset({Kind.ALLREDUCE, Kind.REDUCESCATTER})
_OF_WHOLE_ARRAYS = frozenset({Kind.ALLREDUCE, Kind.BROADCAST})


class Collective(NamedTuple):
    """A collective of some arrays, apart from the arrays: all of them together, or none if one fails.

    Attributes:
        kind: Operation.
        names: Keys that match the ranks' arrays, one for each.
        process_set: Ranks that take part.
        group: Name of the group that several arrays make.
        reduction: Operation that combines the ranks' values, with its scales.
        root_rank: Global rank whose array a broadcast copies.
        rows_for: For each array of an alltoall, the rows that go to each rank.
        rows_of: For each array, the rows that come from each rank; of a reducescatter those that each rank keeps.
        is_gradient: Whether the arrays count as gradient bytes of the step.
    """

    kind: Kind
    names: tuple[str, ...]
    process_set: ProcessSet
    group: str = ""
    reduction: Reduction = PLAIN_AVERAGE
    root_rank: int = 0
    rows_for: tuple[tuple[int, ...], ...] = ()
    rows_of: tuple[tuple[int, ...], ...] = ()
    is_gradient: bool = False

    @property
    def title(self) -> str:
        """Name of the operation, for messages."""
        return self.kind.name.lower()

    @property
    def keeps_shapes(self) -> bool:
        """True if each result has the shape of its array."""
        return self.kind in _OF_WHOLE_ARRAYS

    def dtype_number(self, array: Any) -> int:
        """Return the engine's number for an array's dtype.

        Raises:
            ConfigError: If the collective does not take the dtype.
        """
        name = array.dtype.name
        if self.kind in _REDUCING:
            number = reducible_number(self.title, name)
            check_reduction(self.title, number, self.reduction)
            return number
        if name not in DTYPES:
            raise WrongTypeError(f"{self.title} in a compiled function does not take {name}; convert it first")
        return DTYPES.index(name)

    def result_of(self, position: int, array: Any) -> jax.ShapeDtypeStruct:
        """Return the shape and dtype of one array's result."""
        if self.keeps_shapes:
            return jax.ShapeDtypeStruct(array.shape, array.dtype)
        rows = self.rows_of[position]
        own = rows[world_of(self.process_set).rank] if self.kind is Kind.REDUCESCATTER else sum(rows)
        return jax.ShapeDtypeStruct((own, *array.shape[1:]), array.dtype)

    def renamed(self, suffix: str) -> "Collective":
        """Return the collective under other names."""
        names = tuple(f"{name}.{suffix}" for name in self.names)
        return self._replace(names=names, group=f"{self.group}.{suffix}" if self.group else "")

    def only(self, positions: Sequence[int]) -> "Collective":
        """Return the collective of some of the arrays."""

        def kept(rows: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
            return tuple(rows[position] for position in positions) if rows else ()

        names = tuple(self.names[position] for position in positions)
        return self._replace(names=names, rows_for=kept(self.rows_for), rows_of=kept(self.rows_of))


def traced_name(operation: str, name: str | None) -> str:
    """Return the name of a call that is being traced: the user's under its operation, or the next of this process."""
    return f"{operation}.{name}" if name is not None else f"jax.{operation}.{next(_traced_calls)}"


def numbered(base: str, arrays: int) -> tuple[str, ...]:
    """Return the names of the arrays of a grouped call."""
    return tuple(f"{base}.{number}" for number in range(arrays))


def rows_like_own(operation: str, array: Any, process_set: ProcessSet) -> tuple[int, ...]:
    """Return each rank's rows where all have as many as this one.

    Raises:
        ConfigError: If the array has no axis, or this rank is not in the set.
    """
    return (_rows(operation, array),) * world_of(process_set).size


def rows_shared(operation: str, array: Any, process_set: ProcessSet) -> tuple[int, ...]:
    """Return each rank's share of this array's rows; errors as for `rows_like_own`."""
    rows, size = _rows(operation, array), world_of(process_set).size
    return tuple(scattered_rows(rows, rank, size) for rank in range(size))


def _rows(operation: str, array: Any) -> int:
    if not array.shape:
        raise ConfigError(f"{operation} works on rows and needs an array with at least one axis; call reshape(1)")
    return int(array.shape[0])
