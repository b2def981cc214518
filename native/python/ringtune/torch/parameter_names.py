# SPDX-License-Identifier: Apache-2.0
"""Names and groups of an optimizer's parameters, checked: ranks meet by them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import torch

from ringtune.errors import ConfigError, WrongTypeError
from ringtune.session.submissions import Group

NamedParameter = tuple[str, torch.nn.Parameter]
Groups = int | Iterable[Iterable[torch.Tensor]] | None


def named_parameters_of(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[NamedParameter] | None
) -> Sequence[NamedParameter]:
    """Return a distinct name for every parameter of the optimizer.

    Args:
        optimizer: Optimizer of the parameters.
        named_parameters: Parameters that the caller named, perhaps more than the optimizer holds; without it, names are
            made from the position.

    Raises:
        ConfigError: If names repeat, or a parameter of the optimizer has none; a `WrongTypeError` if an entry is no
            pair of name and parameter.
    """
    if named_parameters is None:
        return positional_names(optimizer.param_groups, 0)
    by_id = _names_by_id(list(named_parameters))
    own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    nameless = [position for position, parameter in enumerate(own) if id(parameter) not in by_id]
    if nameless:
        raise ConfigError(
            f"named_parameters lacks {len(nameless)} of the optimizer's {len(own)} parameters, the first at position "
            f"{nameless[0]}, of shape {tuple(own[nameless[0]].shape)}; pass model.named_parameters() of the whole "
            "model, or leave named_parameters out"
        )
    return [(by_id[id(parameter)], parameter) for parameter in own]


def positional_names(param_groups: Sequence[dict[str, Any]], first_group: int) -> list[NamedParameter]:
    """Return names made from the positions in an optimizer's parameter groups."""
    return [
        (f"noname.{first_group + group_number}.{position}", parameter)
        for group_number, group in enumerate(param_groups)
        for position, parameter in enumerate(group["params"])
    ]


def is_positional(name: str) -> bool:
    """Return whether a name is that of a position, and so the same for another parameter."""
    return name.startswith("noname.")


def groups_of(groups: Groups, named: Sequence[NamedParameter]) -> Mapping[int, Group]:
    """Return which parameters are reduced together, by the parameter's `id`.

    Args:
        groups: A number of groups of consecutive parameters, or lists of parameters; None for no groups.
        named: The optimizer's parameters.

    Raises:
        ConfigError: If it is neither, or a parameter is in two lists.
    """
    if groups is None:
        return {}
    names = {id(parameter): name for name, parameter in named if parameter.requires_grad}
    grouped = [members for members in _disjoint(groups, list(names)) if len(members) > 1]  # one is no group
    return {member: Group(f"gradients.{names[members[0]]}", len(members)) for members in grouped for member in members}


def _disjoint(groups: int | Iterable[Iterable[torch.Tensor]], parameters: list[int]) -> list[list[int]]:
    """Return the groups without members that are not trained, checked; a set has no order that all ranks share."""
    places = {parameter: place for place, parameter in enumerate(parameters)}
    lists = [
        sorted((member for member in members if member in places), key=places.__getitem__)
        for members in _lists(groups, parameters)
    ]
    if max(Counter(chain.from_iterable(lists)).values(), default=1) > 1:
        raise ConfigError("a parameter is twice in the groups; groups must be disjoint")
    return lists


def _lists(groups: int | Iterable[Iterable[torch.Tensor]], parameters: list[int]) -> list[list[int]]:
    """Return the groups as lists of the parameters' ids."""
    if isinstance(groups, int) and not isinstance(groups, bool) and groups > 0:
        size, larger = divmod(len(parameters), groups)
        ends = [number * size + min(number, larger) for number in range(groups + 1)]
        return [parameters[start:end] for start, end in pairwise(ends)]
    lists = _read(groups)
    if lists is None:
        raise WrongTypeError(f"groups={groups!r} is not possible; give a positive number, or lists of parameters")
    return [[id(member) for member in group] for group in lists]


def _read(groups: object) -> list[list[torch.Tensor]] | None:
    """Return groups of tensors as lists, whatever can be iterated over; None for anything else."""
    if not isinstance(groups, Iterable) or isinstance(groups, torch.Tensor | str | Mapping):
        return None
    lists: list[list[torch.Tensor]] = []
    for group in groups:
        if not isinstance(group, Iterable) or isinstance(group, torch.Tensor | str):
            return None
        lists.append(list(group))
        if not all(isinstance(member, torch.Tensor) for member in lists[-1]):
            return None
    return lists


def _names_by_id(named: Sequence[NamedParameter]) -> dict[int, str]:
    if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in named):
        raise WrongTypeError("named_parameters needs pairs of name and parameter, such as model.named_parameters()")
    repeated = sorted(name for name, count in Counter(name for name, _ in named).items() if count > 1)
    if repeated:
        raise ConfigError(f"named_parameters repeats the names {', '.join(repeated)}; names must be distinct")
    return {id(parameter): name for name, parameter in named}
