# SPDX-License-Identifier: Apache-2.0
"""Names and groups of an optimizer's parameters."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ringtune.errors import ConfigError
from ringtune.session.submissions import Group
from ringtune.torch.parameter_names import NamedParameter, groups_of, named_parameters_of


def parameters(count: int) -> list[NamedParameter]:
    """Return named parameters p0, p1, ..."""
    return [(f"p{number}", torch.nn.Parameter(torch.zeros(1))) for number in range(count)]


def members(named: list[NamedParameter], groups: Any) -> dict[str, Group]:
    """Return the group of each name."""
    found = groups_of(groups, named)
    return {name: found[id(parameter)] for name, parameter in named if id(parameter) in found}


def test_names_follow_the_optimizers_order() -> None:
    """The model's names may come in another order."""
    named = parameters(3)
    optimizer = torch.optim.SGD([parameter for _, parameter in named], lr=0.1)

    found = named_parameters_of(optimizer, reversed(named))

    assert ["p0", "p1", "p2"] == [name for name, _ in found]


def test_without_names_the_position_is_the_name() -> None:
    """Group and position: equal on ranks whose optimizers are made alike."""
    first, second = (parameter for _, parameter in parameters(2))
    optimizer = torch.optim.SGD([{"params": [first]}, {"params": [second]}], lr=0.1)

    assert ["noname.0.0", "noname.1.0"] == [name for name, _ in named_parameters_of(optimizer, None)]


def test_names_that_are_no_pairs_are_refused() -> None:
    """`model.parameters()` in place of `model.named_parameters()` is a common slip."""
    named: list[Any] = [parameter for _, parameter in parameters(2)]

    with pytest.raises(TypeError, match="pairs"):
        named_parameters_of(torch.optim.SGD(named, lr=0.1), named)


def test_more_may_be_named_than_the_optimizer_holds() -> None:
    """The whole model's names go with an optimizer of a part of it."""
    named = parameters(4)
    optimizer = torch.optim.SGD([named[1][1], named[3][1]], lr=0.1)

    assert ["p1", "p3"] == [name for name, _ in named_parameters_of(optimizer, named)]


def test_a_parameter_without_a_name_is_a_value_error() -> None:
    """The message says how many there are and where the first one is."""
    named = parameters(3)
    optimizer = torch.optim.SGD([parameter for _, parameter in named], lr=0.1)

    with pytest.raises(ValueError, match=r"lacks 2 of the optimizer's 3 parameters, the first at position 1"):
        named_parameters_of(optimizer, named[:1])


def test_a_name_that_comes_twice_is_a_value_error() -> None:
    """Ranks meet by names, so that each is one parameter's, whether the optimizer holds it or not."""
    named = parameters(2)
    optimizer = torch.optim.SGD([named[0][1]], lr=0.1)

    with pytest.raises(ValueError, match="repeats the names p0; names must be distinct"):
        named_parameters_of(optimizer, [named[0], ("p0", named[1][1])])


@pytest.mark.parametrize("entry", ["p0", ("p0",), (0, torch.zeros(1)), ("p0", torch.zeros(1), "more")])
def test_an_entry_that_is_no_named_parameter_is_a_type_error(entry: Any) -> None:
    """A name is a string, and an entry has two parts."""
    with pytest.raises(TypeError, match="pairs of name and parameter"):
        named_parameters_of(torch.optim.SGD([torch.zeros(1)], lr=0.1), [entry])


@given(count=st.integers(1, 12), groups=st.integers(1, 15))
def test_a_number_of_groups_cuts_the_parameters_evenly(count: int, groups: int) -> None:
    """Groups are consecutive, differ by one in size at most, and a group of one is none."""
    named = parameters(count)

    found = members(named, groups)

    sizes = [count // groups + (number < count % groups) for number in range(groups)]
    assert sorted(size for size in sizes if size > 1) == sorted(
        {group.name: group.size for group in found.values()}.values()
    )
    assert sum(size for size in sizes if size > 1) == len(found)


def test_lists_make_groups_and_the_rest_has_none() -> None:
    """A parameter that no list has is reduced on its own; foreign and frozen ones are left out."""
    named = parameters(5)
    (_, first), (_, second), (_, third), (_, frozen), _ = named
    frozen.requires_grad = False
    foreign = torch.nn.Parameter(torch.zeros(1))

    lists = [[second, first, frozen], [third, foreign]]

    for groups in (lists, iter(lists), [iter(group) for group in lists], (set(group) for group in lists)):
        found = members(named, groups)
        assert {"p0": Group("gradients.p0", 2), "p1": Group("gradients.p0", 2)} == found


@pytest.mark.parametrize("groups", [0, -1, True, "two", [1, 2], [[1]], 1.5])
def test_what_is_no_grouping_is_refused(groups: object) -> None:
    """The error shows the given value."""
    with pytest.raises(ConfigError, match="groups="):
        members(parameters(2), groups)


def test_groups_are_disjoint() -> None:
    """A gradient is reduced once."""
    named = parameters(2)
    (_, first), (_, second) = named

    for groups in ([[first, second], [second, first]], [[first, first]]):
        with pytest.raises(ConfigError, match="disjoint"):
            members(named, groups)
