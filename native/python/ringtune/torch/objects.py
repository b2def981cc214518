# SPDX-License-Identifier: Apache-2.0
"""Plain data between ranks: numbers, texts, lists, tuples, dicts, arrays and tensors, by a typed codec.

Data that arrives is never executed.
"""

from typing import Any

import torch

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import world_of
from ringtune.system.plain_data import Leaf
from ringtune.world.handles import start_all, wait_for_all

from .allgather import allgather
from .broadcast import broadcast_, broadcast_async_
from .buffers import contiguous, copy_of
from .codec import bytes_of, decode, empty_carrier, encode, leaf_of


def broadcast_object(
    obj: Any = None, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Return the root's plain data on every rank.

    Args:
        obj: The data, on the root; ignored elsewhere.
        root_rank: Rank whose data all ranks get.
        name: Key that matches this call across ranks; without one, calls are matched by their order.
        process_set: Ranks that take part.

    Raises:
        ConfigError: If the root's data holds anything else than plain data; raised on every rank.
        EngineError: If the world is lost.
    """
    world = world_of(process_set)
    prefix = world.handles.name_for("object", name)
    text = b""
    own: list[torch.Tensor] = []
    failure: ConfigError | None = None
    is_root = world.rank == process_set.rank_of(root_rank)
    if is_root:
        try:
            text, own = encode(obj)
        except ConfigError as error:
            failure = error
    received = RootText(root_rank, prefix, process_set).told(text, failure)
    carriers: list[torch.Tensor] = []

    def make_carrier(number: int, leaf: Leaf) -> int:
        carriers.append(copy_of(own[number]) if is_root else empty_carrier(leaf))
        return number

    decode(received, make_carrier)
    handles = start_all(
        broadcast_async_(carrier, root_rank, f"{prefix}.{number}", process_set)
        for number, carrier in enumerate(carriers)
    )
    wait_for_all(handles)
    return decode(received, lambda number, leaf: leaf_of(leaf, carriers[number]))


def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """Return every rank's plain data, in rank order.

    Args:
        obj: This rank's.
        name: Key that matches this call across ranks; without one, calls are matched by their order.
        process_set: Ranks that take part.

    Raises:
        ConfigError: If a rank's data holds anything else than plain data; raised on every rank.
        EngineError: If the world is lost.
    """
    prefix = world_of(process_set).handles.name_for("objects", name)
    is_data = True
    try:
        text, carriers = encode(obj)
    except ConfigError as error:
        is_data, text, carriers = False, str(error).encode(), []
    parts = [bytes_of(text), *(contiguous(carrier).reshape(-1).view(torch.uint8) for carrier in carriers)]
    payload = torch.cat(parts)
    header = torch.tensor([[int(is_data), len(text), payload.numel()]], dtype=torch.int64, device="cpu")
    headers = allgather(header, f"{prefix}.header", process_set).tolist()
    payloads = allgather(payload, f"{prefix}.payload", process_set).split([size for _, _, size in headers])
    for rank, ((is_sound, length, _), received) in enumerate(zip(headers, payloads, strict=True)):
        if not is_sound:
            raise ConfigError(f"rank {rank}: {_text_of(received[:length]).decode()}")
    return [_decoded(received, length) for (_, length, _), received in zip(headers, payloads, strict=True)]


class RootText:
    """The rank whose text all get."""

    def __init__(self, root_rank: int, prefix: str, process_set: ProcessSet) -> None:
        self._root_rank = root_rank
        self._prefix = prefix
        self._process_set = process_set

    def told(self, text: bytes, failure: ConfigError | None) -> bytes:
        """Send the length, then the text; a negative length marks the text of an error."""
        if failure is not None:
            text = str(failure).encode()
        length = torch.tensor([-len(text) if failure is not None else len(text)], dtype=torch.int64, device="cpu")
        broadcast_(length, self._root_rank, f"{self._prefix}.length", self._process_set)
        data = torch.zeros(abs(int(length.item())), dtype=torch.uint8, device="cpu")
        if text:
            data.copy_(bytes_of(text))
        broadcast_(data, self._root_rank, f"{self._prefix}.text", self._process_set)
        if int(length.item()) < 0:
            raise ConfigError(f"rank {self._root_rank}: {_text_of(data).decode()}")
        return _text_of(data)


def _text_of(data: torch.Tensor) -> bytes:
    return bytes(data.numpy().tobytes())


def _decoded(payload: torch.Tensor, text_length: int) -> Any:
    """Return the data in one rank's payload: the text, then the leaves' bytes in the order of their numbers."""
    position = text_length

    def make_leaf(number: int, leaf: Leaf) -> Any:
        nonlocal position
        del number
        carrier = empty_carrier(leaf)
        start, position = position, position + carrier.nbytes
        carrier.reshape(-1).view(torch.uint8).copy_(payload[start:position])
        return leaf_of(leaf, carrier)

    return decode(_text_of(payload[:text_length]), make_leaf)
