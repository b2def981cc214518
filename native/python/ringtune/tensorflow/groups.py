# SPDX-License-Identifier: Apache-2.0
"""Groups of gradients that are reduced together, all or none: by number, or by lists of variables."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from ringtune.errors import ConfigError, WrongTypeError

Groups = int | Iterable[Iterable[Any]] | None
"""A number of groups of consecutive variables, or lists of variables; None for no groups."""
ReadGroups = int | Sequence[Sequence[Any]] | None
"""Groups that were read once, so that every step can read them."""


def checked_groups(num_groups: int, groups: Groups) -> ReadGroups:
    """Return the groups that Horovod's two arguments ask for.

    Args:
        num_groups: Horovod's older spelling of a number as `groups`; 0 for none.
        groups: See `Groups`.

    Raises:
        ConfigError: If they are neither.
    """
    found = (num_groups or None) if groups is None else groups
    if found is None or (isinstance(found, int) and not isinstance(found, bool) and found > 0):
        return found
    lists = _read(found)
    if lists is None:
        raise WrongTypeError(f"groups={found!r} is not possible; give a positive number, or lists of variables")
    return lists


def _read(groups: object) -> list[list[Any]] | None:
    """Return groups as lists, whatever can be iterated over once; None for anything else."""
    if not isinstance(groups, Iterable) or isinstance(groups, str | Mapping):
        return None
    lists: list[list[Any]] = []
    for group in groups:
        if not isinstance(group, Iterable) or isinstance(group, str) or hasattr(group, "shape"):
            return None
        lists.append(list(group))
    return lists


def grouped_positions(groups: Groups, variables: Sequence[Any]) -> list[list[int]]:
    """Return the groups as lists of positions in `variables`.

    Raises:
        ConfigError: If a variable is in two groups.
    """
    if groups is None:
        return []
    if isinstance(groups, int):
        size, larger = divmod(len(variables), groups)
        ends = [number * size + min(number, larger) for number in range(groups + 1)]
        return [list(range(start, end)) for start, end in pairwise(ends)]
    positions = {variable_key(variable): position for position, variable in enumerate(variables)}
    lists = [  # sorted, for a set has no order that all ranks share
        sorted(positions[variable_key(member)] for member in members if variable_key(member) in positions)
        for members in groups
    ]
    if max(Counter(chain.from_iterable(lists)).values(), default=1) > 1:
        raise ConfigError("a variable is twice in the groups; groups must be disjoint")
    return lists


def variable_key(variable: Any) -> int:
    """Return a key common to a Keras variable and the TensorFlow variable inside of it; unique while they live."""
    return id(getattr(variable, "value", variable)) if hasattr(variable, "path") else id(variable)
