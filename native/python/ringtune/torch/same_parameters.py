# SPDX-License-Identifier: Apache-2.0
"""Checks that the optimizers of all ranks hold the same parameters, in one order and with the same weights."""

import hashlib
from collections.abc import Sequence

import torch
from torch.nn.parameter import is_lazy

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet
from ringtune.session.submissions import Operand, Reduction, Sum, start_allreduce
from ringtune.world.world import World

from .buffers import dtype_number
from .objects import allgather_object
from .parameter_names import NamedParameter, is_positional

OPTIMIZER = "ringtune.optimizer"
"""Name of all messages of the optimizers of a process set. They step in turn, in one order on all ranks; a name
made of their parameters would keep ranks apart whose parameters differ."""
_DIGEST_PARTS = 4  # parts of 16 bits, whose squares can be summed over any number of ranks
_SUM = Reduction(Sum)
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def check_same_parameters(world: World, process_set: ProcessSet, parameters: Sequence[NamedParameter]) -> None:
    """Compare an optimizer's parameters over the ranks, by digests; ranks that have joined are left out.

    Args:
        world: World whose ranks take part.
        process_set: The same ranks.
        parameters: The optimizer's, in its order.

    Raises:
        ConfigError: If ranks differ in a name, a dtype, a shape or the order; raised on every rank. Another order
            shows without names too, where the ranks' weights are the same ones.
        EngineError: If the world is lost.
    """
    by_position = (
        [checksum(each) for _, each in parameters] if all(is_positional(name) for name, _ in parameters) else []
    )
    are_equal, has_one_order, has_one_set = _compare(
        world, [_described(parameters), list(map(str, by_position)), list(map(str, sorted(by_position)))]
    )
    if not are_equal:
        raise difference_of_parameters(process_set, parameters)
    if has_one_set and not has_one_order:
        raise ConfigError(
            "the optimizers of the ranks hold the same parameters in another order, and gradients without names are "
            "matched by position; wrap the parameters in one order on all ranks, or pass "
            "named_parameters=model.named_parameters()"
        )


def difference_of_parameters(process_set: ProcessSet, parameters: Sequence[NamedParameter]) -> ConfigError:
    """Return the error that names a difference between the ranks' optimizers; called on all ranks.

    Raises:
        EngineError: If the world is lost.
    """
    own = dict(zip([name for name, _ in parameters], _described(parameters), strict=True))
    gathered = allgather_object([list(own), list(own.values())], f"{OPTIMIZER}.parameters", process_set)
    everybodys = [dict(zip(names, described, strict=True)) for names, described in gathered]
    found = (_difference(everybodys[0], theirs, rank) for rank, theirs in enumerate(everybodys[1:], start=1))
    texts = (text for text in found if text is not None)
    return ConfigError(
        next(texts, "the optimizers of the ranks hold different parameters; wrap the same ones everywhere")
    )


def _difference(first: dict[str, str], theirs: dict[str, str], rank: int) -> str | None:
    """Return the difference between the parameters of rank 0 and another rank, by name and description."""
    lone = next((name for name in [*theirs, *first] if (name in theirs) != (name in first)), None)
    if lone is not None:
        holder, other = (rank, 0) if lone in theirs else (0, rank)
        return (
            f"the optimizer of rank {holder} trains {lone}, that of rank {other} does not; wrap the same parameters on "
            "all ranks, change param_groups on all ranks alike, and step several optimizers in one order"
        )
    unlike = next((name for name in first if first[name] != theirs[name]), None)
    if unlike is not None:
        return (
            f"the optimizer of rank 0 holds {first[unlike]}, that of rank {rank} {theirs[unlike]}; wrap the same "
            "parameters on all ranks, in one order where they have no names"
        )
    if list(theirs) != list(first):
        return (
            f"the optimizers of ranks 0 and {rank} hold the same parameters in another order; wrap them in one order "
            "on all ranks"
        )
    return None


def have_same_weights(world: World, parameters: Sequence[NamedParameter]) -> bool:
    """Return whether the parameters of all ranks have the same bits; called on all ranks.

    Raises:
        EngineError: If the world is lost.
    """
    return _compare(world, [[str(checksum(parameter)) for _, parameter in parameters]])[0]


def checksum(tensor: torch.Tensor) -> int:
    """Return the sum of a dense tensor's elements, read as integers: the same in any order of the additions."""
    if is_lazy(tensor) or tensor.layout is not torch.strided:
        return 0
    values = tensor.detach()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    return int(values.view(_BITS[values.element_size()]).sum(dtype=torch.int64))


def _described(parameters: Sequence[NamedParameter]) -> list[str]:
    return [f"{name} ({_kind(parameter)})" for name, parameter in parameters]


def _kind(parameter: torch.Tensor) -> str:
    if is_lazy(parameter):
        return "not initialized"
    return f"{str(parameter.dtype).removeprefix('torch.')}, shape {tuple(parameter.shape)}"


def _compare(world: World, lists: Sequence[Sequence[str]]) -> list[bool]:
    """Return for each list whether it is the same one on all ranks that take part."""
    digests = [hashlib.sha256("\0".join(each).encode(errors="surrogateescape")).digest() for each in lists]
    parts = [
        int.from_bytes(digest[2 * part : 2 * part + 2], "little") for digest in digests for part in range(_DIGEST_PARTS)
    ]
    table = torch.tensor([1, *parts, *(part * part for part in parts)], dtype=torch.int64, device="cpu")
    operand = Operand(table.data_ptr(), tuple(table.shape), dtype_number(table.dtype), table)
    start_allreduce(world, f"{OPTIMIZER}.digest", (operand, operand), _SUM, lambda _: None).wait()
    count, *sums = table.tolist()
    # These are equal where all ranks' parts are (the Cauchy-Schwarz inequality).
    alike = [
        count * square == total * total for total, square in zip(sums[: len(parts)], sums[len(parts) :], strict=True)
    ]
    return [all(alike[begin : begin + _DIGEST_PARTS]) for begin in range(0, len(parts), _DIGEST_PARTS)]
