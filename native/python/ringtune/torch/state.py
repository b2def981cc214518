# SPDX-License-Identifier: Apache-2.0
"""Bringing all ranks to one state: parameters, buffers and optimizer state of a root rank."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ringtune.errors import ConfigError, WrongTypeError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import world_of
from ringtune.world.handles import start_all, wait_for_all

from .broadcast import broadcast_async_
from .buffers import check_movable, check_writable
from .objects import broadcast_object

Parameters = Mapping[str, Any] | Iterable[tuple[str | None, Any]] | Iterable[torch.Tensor]


def broadcast_parameters(params: Parameters, root_rank: int, process_set: ProcessSet = global_process_set) -> None:
    """Overwrite parameters and buffers with the root's, in place.

    Args:
        params: `model.state_dict()`, `model.named_parameters()` or `model.parameters()`; the same on all ranks.
            Entries that are None, or else no tensors, are skipped.
        root_rank: Rank whose values all ranks get.
        process_set: Ranks that take part.

    Raises:
        ConfigError: If a tensor cannot be taken, a name comes twice, or there is no such rank; a `WrongTypeError` if
            `params` is neither. No data was sent.
        MismatchError: If shapes or dtypes differ between ranks.
        EngineError: If the world is lost.
    """
    tensors = [(name, tensor.detach()) for name, tensor in _pairs(params) if isinstance(tensor, torch.Tensor)]
    repeated = sorted(name for name, count in Counter(name for name, _ in tensors).items() if count > 1)
    if repeated:
        raise ConfigError(f"broadcast_parameters got the names {', '.join(repeated)} twice; names must be distinct")
    for name, tensor in tensors:  # before the first one is on its way
        check_writable(f"broadcast_parameters of {name}", check_movable(f"broadcast_parameters of {name}", tensor))
    handles = start_all(
        broadcast_async_(tensor, root_rank, f"parameter.{name}", process_set) for name, tensor in tensors
    )
    wait_for_all(handles)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Bring the options and the state of an optimizer to the root's, whatever state the other ranks have.

    Args:
        optimizer: Optimizer of the same parameters on all ranks.
        root_rank: Rank whose state all get; it may be empty, as before the first step. Numbers of numpy, such as a
            learning rate that was computed, are sent as such; a value that is None there is None everywhere.
        model: Horovod's; not needed.
        process_set: Ranks that take part.

    Raises:
        ConfigError: If the state holds a value that cannot be sent; raised on every rank.
        EngineError: If the world is lost.
    """
    del model
    state = broadcast_object(optimizer.state_dict(), root_rank, "optimizer_state", process_set)
    if world_of(process_set).rank != process_set.rank_of(root_rank):
        optimizer.load_state_dict(state)


def _pairs(params: Parameters) -> list[tuple[str, Any]]:
    if isinstance(params, Mapping):
        return sorted(params.items())
    if isinstance(params, torch.Tensor) or not isinstance(params, Iterable):
        raise WrongTypeError(f"broadcast_parameters needs a state_dict or parameters, not {type(params).__name__}")
    pairs = [entry if isinstance(entry, tuple) else (None, entry) for entry in params]
    return [(str(number) if name is None else name, value) for number, (name, value) in enumerate(pairs)]
