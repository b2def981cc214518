# SPDX-License-Identifier: Apache-2.0
"""Bringing all ranks to one state: parameters, buffers and optimizer state of a root rank."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ringtune.errors import ConfigError

from .basics import rank
from .codec import decode, encode
from .operations import broadcast_, broadcast_async_, synchronize

NamedTensors = Mapping[str, Any] | Iterable[tuple[str, Any]]


def broadcast_parameters(params: NamedTensors, root_rank: int) -> None:
    """Overwrite parameters and buffers with the root's, in place.

    Args:
        params: `model.state_dict()` or `model.named_parameters()`; the same names on all ranks. Entries that are no
            tensors are skipped.
        root_rank: Whose values all get.

    Raises:
        ConfigError: If `params` is neither, or there is no such rank.
        MismatchError: If shapes or dtypes differ between ranks.
        EngineError: If the world is lost.
    """
    if isinstance(params, Mapping):
        pairs = sorted(params.items())
    elif isinstance(params, torch.Tensor) or not isinstance(params, Iterable):
        raise ConfigError(f"broadcast_parameters needs a state_dict or named parameters, not {type(params).__name__}")
    else:
        pairs = list(params)
    tensors = [(name, tensor.detach()) for name, tensor in pairs if isinstance(tensor, torch.Tensor)]
    handles = [broadcast_async_(tensor, root_rank, f"parameter.{name}") for name, tensor in tensors]
    for handle in handles:
        synchronize(handle)


def broadcast_object(value: Any = None, root_rank: int = 0, name: str | None = None) -> Any:
    """Return the root's plain data on every rank: numbers, texts, lists, tuples, dicts, tensors.

    Args:
        value: The data, on the root; ignored elsewhere.
        root_rank: Whose data all get.
        name: Under which the ranks meet; without one, calls are matched by their order.

    Raises:
        ConfigError: If the root's data holds anything else; raised on every rank.
        EngineError: If the world is lost.
    """
    prefix = "object" if name is None else f"object.{name}"
    text = b""
    tensors: list[torch.Tensor] = []
    failure: ConfigError | None = None
    if rank() == root_rank:
        try:
            text, tensors = encode(value)
        except ConfigError as error:
            failure = error
    received = _broadcast_text(text, root_rank, prefix, failure)
    made: list[torch.Tensor] = []

    def make_tensor(number: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        made.append(tensors[number].detach().clone() if tensors else torch.empty(shape, dtype=dtype))
        return made[-1]

    result = decode(received, make_tensor)
    handles = [broadcast_async_(tensor, root_rank, f"{prefix}.{number}") for number, tensor in enumerate(made)]
    for handle in handles:
        synchronize(handle)
    return result


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """Bring the options and the state of an optimizer to the root's, whatever state the other ranks have.

    Args:
        optimizer: Over the same parameters on all ranks.
        root_rank: Whose state all get; it may be empty, as before the first step.

    Raises:
        ConfigError: If the state holds what cannot be sent; raised on every rank.
        EngineError: If the world is lost.
    """
    state = broadcast_object(optimizer.state_dict(), root_rank, "optimizer_state")
    if rank() != root_rank:
        optimizer.load_state_dict(state)


def _broadcast_text(text: bytes, root_rank: int, prefix: str, failure: ConfigError | None) -> bytes:
    """Send the length, then the text; a negative length says that the text is an error's."""
    if failure is not None:
        text = str(failure).encode()
    length = torch.tensor([-len(text) if failure is not None else len(text)], dtype=torch.int64)
    broadcast_(length, root_rank, f"{prefix}.length")
    size = abs(int(length.item()))
    data = torch.zeros(size, dtype=torch.uint8)
    if text:
        data.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
    broadcast_(data, root_rank, f"{prefix}.text")
    received = bytes(data.numpy().tobytes())
    if int(length.item()) < 0:
        raise ConfigError(f"rank {root_rank}: {received.decode()}")
    return received
