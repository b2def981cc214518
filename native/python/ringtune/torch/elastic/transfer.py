# SPDX-License-Identifier: Apache-2.0
"""Broadcast of a state: first its schema, then all small tensors as one and each large one in place."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ringtune.errors import ConfigError
from ringtune.session.process_sets import global_process_set
from ringtune.session.session import SESSION
from ringtune.system.plain_data import Leaf
from ringtune.torch.broadcast import broadcast_async_
from ringtune.torch.buffers import contiguous
from ringtune.torch.codec import TENSOR, decode, empty_carrier, encode, leaf_of
from ringtune.torch.objects import RootText
from ringtune.world.handles import start_all, wait_for_all

LARGE_BYTES = (
    256 * 1024
)  # a tensor of at least this size travels by itself, where a copy would cost more than a message


class _Slot(NamedTuple):
    """The place of a leaf in a tree whose tensors are still to come."""

    number: int
    leaf: Leaf


def broadcast_tree(tree: Any, root: int, name: str) -> Any:
    """Return the root's tree on every rank.

    Args:
        tree: Plain data with tensors. On other ranks than the root, tensors at the same places with the same shape and
            dtype are overwritten, so that they need no further memory.
        root: Rank whose tree all ranks get.
        name: Key that matches this call across ranks.

    Raises:
        ConfigError: If the root's tree holds anything else than plain data; raised on every rank.
        EngineError: If the world is lost.
    """
    text = b""
    carriers: list[torch.Tensor] = []
    failure: ConfigError | None = None
    is_root = SESSION.require().rank == root
    if is_root:
        try:
            text, carriers = encode(tree)
        except ConfigError as error:
            failure = error
    root_text = RootText(root, name, global_process_set).told(text, failure)
    if not is_root:
        carriers = _receivers(root_text, tree)
    _broadcast_all(carriers, root, name, is_root=is_root)
    return tree if is_root else decode(root_text, lambda number, leaf: leaf_of(leaf, carriers[number]))


def _receivers(text: bytes, tree: Any) -> list[torch.Tensor]:
    """Return a tensor for each leaf of the root's data: this rank's own at the same place, or a new one."""
    leaves: list[Leaf] = []

    def slot(number: int, leaf: Leaf) -> _Slot:
        leaves.append(leaf)
        return _Slot(number, leaf)

    own: dict[int, torch.Tensor] = {}
    _find_receivers(decode(text, slot), tree, own)
    return [own[number] if number in own else empty_carrier(leaf) for number, leaf in enumerate(leaves)]


def _find_receivers(schema: Any, tree: Any, found: dict[int, torch.Tensor]) -> None:
    if isinstance(schema, _Slot):
        if _can_receive(tree, schema.leaf):
            found[schema.number] = tree.detach()
    elif isinstance(schema, Mapping):
        for key, inner in schema.items():
            _find_receivers(inner, tree.get(key) if isinstance(tree, Mapping) else None, found)
    elif isinstance(schema, list | tuple):
        for place, inner in enumerate(schema):
            is_there = isinstance(tree, list | tuple) and place < len(tree)
            _find_receivers(inner, tree[place] if is_there else None, found)


def _can_receive(value: Any, leaf: Leaf) -> bool:
    """Return whether a value is a tensor in CPU memory that can hold the leaf as it arrives."""
    if leaf.kind != TENSOR or not isinstance(value, torch.Tensor) or torch.nn.parameter.is_lazy(value):
        return False
    is_plain = value.layout is torch.strided and value.device.type == "cpu" and value.is_contiguous()
    return is_plain and tuple(value.shape) == leaf.shape and str(value.dtype) == f"torch.{leaf.dtype}"


def _broadcast_all(carriers: Sequence[torch.Tensor], root: int, name: str, *, is_root: bool) -> None:
    """Overwrite the tensors of all ranks with the root's: the small ones packed in one message of bytes."""
    small = [carrier for carrier in carriers if 0 < carrier.nbytes < LARGE_BYTES]
    large = [carrier for carrier in carriers if carrier.nbytes >= LARGE_BYTES]
    pack = _packed(small) if is_root else _room_for(small)
    tensors = [pack, *large]
    wait_for_all(start_all(broadcast_async_(tensor, root, f"{name}.{i}") for i, tensor in enumerate(tensors)))
    if not is_root:
        _unpack(pack, small)


def _packed(carriers: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([contiguous(carrier).reshape(-1).view(torch.uint8) for carrier in carriers] or [_room_for(())])


def _room_for(carriers: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.empty(sum(carrier.nbytes for carrier in carriers), dtype=torch.uint8, device="cpu")


def _unpack(pack: torch.Tensor, carriers: Sequence[torch.Tensor]) -> None:
    for carrier, part in zip(carriers, pack.split([carrier.nbytes for carrier in carriers]), strict=True):
        carrier.copy_(part.clone().view(carrier.dtype).reshape(carrier.shape))  # a clone, for the dtype's alignment
