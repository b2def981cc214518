# SPDX-License-Identifier: Apache-2.0
"""Plain data between ranks: numbers, texts, lists, tuples, dicts and tensors, by a typed codec. Nothing is executed."""

from typing import Any

import torch

from ringtune.errors import ConfigError
from ringtune.handles import wait_for_all
from ringtune.process_sets import ProcessSet, global_process_set
from ringtune.submissions import world_of

from .allgather import allgather
from .broadcast import broadcast_, broadcast_async_
from .codec import decode, encode


def broadcast_object(
    obj: Any = None, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Return the root's plain data on every rank.

    Args:
        obj: The data, on the root; ignored elsewhere.
        root_rank: Whose data all get.
        name: Under which the ranks meet; without one, calls are matched by their order.
        process_set: Over which ranks.

    Raises:
        ConfigError: If the root's data holds anything else than plain data; raised on every rank.
        EngineError: If the world is lost.
    """
    world = world_of(process_set)
    prefix = world.handles.name_for("object", name)
    text = b""
    tensors: list[torch.Tensor] = []
    failure: ConfigError | None = None
    is_root = world.rank == process_set.rank_of(root_rank)
    if is_root:
        try:
            text, tensors = encode(obj)
        except ConfigError as error:
            failure = error
    received = _Root(root_rank, prefix, process_set).told(text, failure)
    made: list[torch.Tensor] = []

    def make_tensor(number: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        made.append(tensors[number].detach().clone() if is_root else torch.empty(shape, dtype=dtype))
        return made[-1]

    result = decode(received, make_tensor)
    wait_for_all(
        [broadcast_async_(tensor, root_rank, f"{prefix}.{number}", process_set) for number, tensor in enumerate(made)]
    )
    return result


def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """Return every rank's plain data, in rank order.

    Args:
        obj: This rank's.
        name: Under which the ranks meet; without one, calls are matched by their order.
        process_set: Over which ranks.

    Raises:
        ConfigError: If a rank's data holds anything else than plain data; raised on every rank.
        EngineError: If the world is lost.
    """
    prefix = world_of(process_set).handles.name_for("objects", name)
    is_data = True
    try:
        text, tensors = encode(obj)
    except ConfigError as error:
        is_data, text, tensors = False, str(error).encode(), []
    parts = [_bytes_of(text), *(tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in tensors)]
    payload = torch.cat(parts)
    header = torch.tensor([[int(is_data), len(text), payload.numel()]], dtype=torch.int64)
    headers = allgather(header, f"{prefix}.header", process_set).tolist()
    payloads = allgather(payload, f"{prefix}.payload", process_set).split([size for _, _, size in headers])
    for rank, ((is_sound, length, _), received) in enumerate(zip(headers, payloads, strict=True)):
        if not is_sound:
            raise ConfigError(f"rank {rank}: {_text_of(received[:length]).decode()}")
    return [_decoded(received, length) for (_, length, _), received in zip(headers, payloads, strict=True)]


class _Root:
    """The rank whose text all get."""

    def __init__(self, root_rank: int, prefix: str, process_set: ProcessSet) -> None:
        self._root_rank = root_rank
        self._prefix = prefix
        self._process_set = process_set

    def told(self, text: bytes, failure: ConfigError | None) -> bytes:
        """Send the length, then the text; a negative length says that the text is an error's."""
        if failure is not None:
            text = str(failure).encode()
        length = torch.tensor([-len(text) if failure is not None else len(text)], dtype=torch.int64)
        broadcast_(length, self._root_rank, f"{self._prefix}.length", self._process_set)
        data = torch.zeros(abs(int(length.item())), dtype=torch.uint8)
        if text:
            data.copy_(_bytes_of(text))
        broadcast_(data, self._root_rank, f"{self._prefix}.text", self._process_set)
        if int(length.item()) < 0:
            raise ConfigError(f"rank {self._root_rank}: {_text_of(data).decode()}")
        return _text_of(data)


def _bytes_of(text: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8) if text else torch.empty(0, dtype=torch.uint8)


def _text_of(data: torch.Tensor) -> bytes:
    return bytes(data.numpy().tobytes())


def _decoded(payload: torch.Tensor, text_length: int) -> Any:
    """Return the data in one rank's payload: the text, then the tensors' bytes in the order of their numbers."""
    position = text_length

    def make_tensor(number: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        nonlocal position
        del number
        start, position = position, position + torch.Size(shape).numel() * dtype.itemsize
        return payload[start:position].clone().view(dtype).reshape(shape)

    return decode(_text_of(payload[:text_length]), make_tensor)
