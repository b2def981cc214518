# SPDX-License-Identifier: Apache-2.0
"""Copies of states: trees of dicts, lists and tuples with tensors in them."""

import copy
from collections.abc import Mapping
from typing import Any

import torch


def snapshot(tree: Any, room: Any = None) -> Any:
    """Return a copy of a tree whose tensors share no memory with it.

    Args:
        tree: State, such as a `state_dict()`.
        room: An earlier copy, whose memory is used again where shapes and dtypes agree.
    """
    if isinstance(tree, torch.Tensor):
        if has_room(tree, room):
            return room.copy_(tree.detach())
        return tree.detach().clone()
    if isinstance(tree, Mapping):
        return _mapping_snapshot(tree, room if isinstance(room, Mapping) else {})
    if type(tree) in {list, tuple}:
        rooms = room if type(room) is type(tree) and len(room) == len(tree) else [None] * len(tree)
        return type(tree)(snapshot(value, place) for value, place in zip(tree, rooms, strict=True))
    return copy.deepcopy(tree)


def _mapping_snapshot(tree: Mapping[Any, Any], room: Mapping[Any, Any]) -> Any:
    """Return a copy of a mapping, of its own type, with its attributes and its factory."""
    copied = {key: snapshot(value, room.get(key)) for key, value in tree.items()}
    if type(tree) is dict or not isinstance(tree, dict):
        return copied
    kept = copy.copy(tree)
    for name, value in getattr(tree, "__dict__", {}).items():
        vars(kept)[name] = snapshot(value)
    for key, value in copied.items():
        dict.__setitem__(kept, key, value)
    return kept


def has_room(tensor: torch.Tensor, room: Any) -> bool:
    """Return whether `room` can hold a copy of a tensor: same shape, dtype, device and layout."""
    return (
        isinstance(room, torch.Tensor)
        and not torch.nn.parameter.is_lazy(room)
        and (room.shape, room.dtype, room.device, room.layout)
        == (tensor.shape, tensor.dtype, tensor.device, tensor.layout)
    )
