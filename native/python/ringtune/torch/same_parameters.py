# SPDX-License-Identifier: Apache-2.0
"""Check that the optimizers of all ranks hold the same parameters; names those that differ."""

import hashlib
from collections.abc import Sequence

import torch

from ringtune.errors import ConfigError
from ringtune.process_sets import ProcessSet
from ringtune.submissions import Operand, Reduction, Sum, start_allreduce
from ringtune.world import World

from .buffers import dtype_number
from .objects import allgather_object

_DIGEST_PARTS = 4  # parts of 16 bits, whose squares can be summed over any number of ranks
_SUM = Reduction(Sum)


def check_same_parameters(world: World, process_set: ProcessSet, name: str, parameters: Sequence[str]) -> None:
    """Compare the names of an optimizer's parameters over the ranks, by a digest; ranks that have joined are left out.

    Args:
        world: World whose ranks take part.
        process_set: The same ranks.
        name: The optimizer's.
        parameters: Their names, in the optimizer's order.

    Raises:
        ConfigError: If ranks differ; raised on every rank.
        EngineError: If the world is lost.
    """
    digest = hashlib.sha256("\0".join(parameters).encode(errors="surrogateescape")).digest()
    parts = [int.from_bytes(digest[2 * part : 2 * part + 2], "little") for part in range(_DIGEST_PARTS)]
    table = torch.tensor([1, *parts, *(part * part for part in parts)], dtype=torch.int64, device="cpu")
    operand = Operand(table.data_ptr(), tuple(table.shape), dtype_number(table.dtype), table)
    start_allreduce(world, f"{name}.digest", (operand, operand), _SUM, lambda _: None).wait()
    count, *sums = table.tolist()
    totals, squares = sums[:_DIGEST_PARTS], sums[_DIGEST_PARTS:]
    # These are equal where all ranks' parts are (the Cauchy-Schwarz inequality).
    if any(count * square != total * total for total, square in zip(totals, squares, strict=True)):
        raise difference_of_parameters(process_set, name, parameters)


def difference_of_parameters(process_set: ProcessSet, name: str, parameters: Sequence[str]) -> ConfigError:
    """Return the error that names what ranks' optimizers do not have in common; called on all ranks.

    Raises:
        EngineError: If the world is lost.
    """
    named = allgather_object(list(parameters), f"{name}.parameters", process_set)
    for rank, theirs in enumerate(named[1:], start=1):
        for parameter in [*theirs, *named[0]]:
            if (parameter in theirs) != (parameter in named[0]):
                holder, other = (rank, 0) if parameter in theirs else (0, rank)
                return ConfigError(
                    f"the optimizer of rank {holder} trains {parameter}, that of rank {other} does not; wrap the same "
                    "parameters on all ranks, and change param_groups on all ranks alike"
                )
        if theirs != named[0]:
            return ConfigError(
                f"the optimizers of ranks 0 and {rank} hold the same parameters in another order; wrap them in one "
                "order on all ranks"
            )
    return ConfigError("the optimizers of the ranks hold different parameters; wrap the same ones on all ranks")
