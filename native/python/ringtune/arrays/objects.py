# SPDX-License-Identifier: Apache-2.0
"""Plain data between ranks: numbers, texts, lists, tuples, dicts and arrays, by a typed codec. Data is never executed.

A front end adds its tensors by a `LeafTypes` of its own.
"""

from typing import Any

import numpy as np

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import world_of
from ringtune.system.numpy_leaves import ARRAY, SCALAR, dtype_of
from ringtune.system.plain_data import Leaf, decode, encode
from ringtune.world.handles import start_all, wait_for_all

from .buffers import Array, checked_array, empty_array
from .movement import allgather_async, broadcast, broadcast_async


class LeafTypes:
    """Values that travel as arrays, and their types on the other side."""

    def array_of(self, value: Any) -> tuple[str, Any] | None:
        """Return a leaf's kind and its array; None for a value that is no leaf."""
        if isinstance(value, np.generic):
            return SCALAR, value
        return (ARRAY, value) if isinstance(value, np.ndarray) else None

    def leaf_of(self, kind: str, array: Array) -> Any:
        """Return an array as the leaf that it was."""
        return array[()] if kind == SCALAR else array


_NUMPY = LeafTypes()


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    leaf_types: LeafTypes = _NUMPY,
) -> Any:
    """Return the root's plain data on every rank.

    Args:
        obj: The data, on the root; ignored elsewhere.
        root_rank: Rank whose data all ranks get.
        name: Key that matches this call across ranks; without one, calls are matched by their order.
        process_set: Ranks that take part.
        leaf_types: Types of values that travel as arrays.

    Raises:
        ConfigError: If the root's data holds anything else than plain data; raised on every rank.
        EngineError: If the world is lost.
    """
    world = world_of(process_set)
    prefix = world.handles.name_for("object", name)
    is_root = world.rank == process_set.rank_of(root_rank)
    message = _Message(obj, leaf_types) if is_root else None
    header = [0, 0] if message is None else [len(message.text), int(message.is_sound)]
    length, is_sound = broadcast(np.array(header), root_rank, name=f"{prefix}.length", process_set=process_set).tolist()
    own = np.zeros(length, np.uint8) if message is None else np.frombuffer(message.text, np.uint8)
    text = broadcast(own, root_rank, name=f"{prefix}.text", process_set=process_set).tobytes()
    if not is_sound:
        raise ConfigError(f"rank {root_rank}: {text.decode()}")
    given: list[Array] = []

    def take_note(number: int, leaf: Leaf) -> int:
        given.append(empty_array(leaf.shape, dtype_of(leaf)) if message is None else message.arrays[number])
        return number

    decode(text, take_note)
    handles = start_all(
        broadcast_async(array, root_rank, name=f"{prefix}.{number}", process_set=process_set)
        for number, array in enumerate(given)
    )
    arrays = wait_for_all(handles)
    return decode(text, lambda number, leaf: leaf_types.leaf_of(leaf.kind, arrays[number]))


def allgather_object(
    obj: Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    leaf_types: LeafTypes = _NUMPY,
) -> list[Any]:
    """Return every rank's plain data, in rank order.

    Args:
        obj: This rank's.
        name: Key that matches this call across ranks; without one, calls are matched by their order.
        process_set: Ranks that take part.
        leaf_types: Types of values that travel as arrays.

    Raises:
        ConfigError: If a rank's data holds anything else than plain data; raised on every rank.
        EngineError: If the world is lost.
    """
    prefix = world_of(process_set).handles.name_for("objects", name)
    message = _Message(obj, leaf_types)
    payload = np.frombuffer(b"".join([message.text, *(array.tobytes() for array in message.arrays)]), np.uint8)
    header = np.array([[int(message.is_sound), len(message.text)]])
    header_handle = allgather_async(header, name=f"{prefix}.header", process_set=process_set)
    payload_handle = allgather_async(payload, name=f"{prefix}.payload", process_set=process_set)
    (headers, _), (joined, sizes) = wait_for_all([header_handle, payload_handle])
    payloads = np.split(joined, np.cumsum(sizes)[:-1])
    for rank, ((is_sound, length), received) in enumerate(zip(headers.tolist(), payloads, strict=True)):
        if not is_sound:
            raise ConfigError(f"rank {rank}: {received[:length].tobytes().decode()}")
    return [
        _decoded(received, length, leaf_types) for (_, length), received in zip(headers.tolist(), payloads, strict=True)
    ]


class _Message:
    """A rank's answer: its data, or the reason why that is not sound."""

    def __init__(self, obj: Any, leaf_types: LeafTypes) -> None:
        self.arrays: list[Array] = []
        self.is_sound = True

        def find_leaf(value: Any) -> Leaf | None:
            found = leaf_types.array_of(value)
            if found is None:
                return None
            array = checked_array("sending data", found[1])
            leaf = Leaf(found[0], array.dtype.name, array.shape)
            if dtype_of(leaf) != array.dtype:
                raise ConfigError(f"an array of {array.dtype} cannot be sent to other ranks; arrays of numbers can")
            self.arrays.append(array)
            return leaf

        try:
            self.text, _ = encode(obj, find_leaf)
        except ConfigError as error:
            self.text, self.arrays, self.is_sound = str(error).encode(), [], False


def _decoded(payload: Array, text_length: int, leaf_types: LeafTypes) -> Any:
    """Return the data in one rank's payload: the text, then the arrays' bytes in the order of their numbers."""
    position = text_length

    def make_leaf(number: int, leaf: Leaf) -> Any:
        nonlocal position
        del number
        dtype = dtype_of(leaf)
        start, position = position, position + int(np.prod(leaf.shape, dtype=np.int64)) * dtype.itemsize
        array = empty_array(leaf.shape, dtype)
        array.reshape(-1).view(np.uint8)[:] = payload[start:position]
        return leaf_types.leaf_of(leaf.kind, array)

    return decode(payload[:text_length].tobytes(), make_leaf)
