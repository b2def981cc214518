# SPDX-License-Identifier: Apache-2.0
"""Collectives that move elements between ranks: broadcast, allgather, gather, scatter, all-to-all."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ringtune.errors import ConfigError
from ringtune.session.submissions import start_allgather, start_alltoall, start_broadcast
from ringtune.torch.buffers import operand_of, tensor_of
from ringtune.world.world import World

from .calls import Calls
from .keys import broadcast_key, exchange_key, gather_key
from .memory import check, dense, flat, joined, offered, part, room_for, write_back
from .works import EngineWork, Pending


class Moving:
    """The moving collectives of one group."""

    def __init__(self, world: World, calls: Calls) -> None:
        """Serve a group.

        Args:
            world: The group's world.
            calls: The group's calls.
        """
        self._world = world
        self._calls = calls

    def broadcast(self, tensor: torch.Tensor, root: int, limit_s: float | None) -> EngineWork:
        """Overwrite a tensor with the root's."""
        memory = dense(tensor)

        def submit(name: str) -> list[Pending]:
            operand = operand_of(memory)
            return [start_broadcast(self._world, name, operand, root, lambda _: write_back(tensor, memory))]  # type: ignore[list-item]

        return self._calls.start(broadcast_key(tensor, root), submit, [tensor], limit_s)

    def all_gather(
        self,
        outputs: Sequence[Sequence[torch.Tensor]],
        inputs: Sequence[torch.Tensor],
        limit_s: float | None,
        kind: str = "all_gather",
    ) -> EngineWork:
        """Gather tensors of every rank into lists, in the order of the ranks; sizes may differ between ranks."""
        size = self._world.size
        for row, given in zip(outputs, inputs, strict=True):
            if len(row) != size or row[self._world.rank].numel() != given.numel():
                raise ConfigError(
                    f"all_gather needs {size} tensors for the result, this rank's of {given.numel()} elements; got "
                    f"{[tensor.numel() for tensor in row]}"
                )
        key = (
            kind,
            *(
                (given.dtype, tuple(given.shape) if len({tensor.shape for tensor in row}) <= 1 else "ragged")
                for row, given in zip(outputs, inputs, strict=True)
            ),
        )

        def submit(name: str) -> list[Pending]:
            return [
                self._start_gather(f"{name} {index}", given, row)
                for index, (row, given) in enumerate(zip(outputs, inputs, strict=True))
            ]

        return self._calls.start(key, submit, [tensor for row in outputs for tensor in row], limit_s)

    def all_gather_single(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], limit_s: float | None
    ) -> EngineWork:
        """Gather tensors of every rank, each into one tensor that has room for all of them."""
        size = self._world.size
        for output, given in zip(outputs, inputs, strict=True):
            if output.numel() != size * given.numel() or output.dtype != given.dtype:
                raise ConfigError(
                    f"all_gather_into_tensor: output tensor size must be equal to world_size times input tensor size; "
                    f"got {output.dtype} {tuple(output.shape)} for {size} ranks and {given.dtype} {tuple(given.shape)}"
                )

        def submit(name: str) -> list[Pending]:
            return [
                self._start_gather_single(f"{name} {index}", given, output)
                for index, (output, given) in enumerate(zip(outputs, inputs, strict=True))
            ]

        return self._calls.start(gather_key(inputs), submit, list(outputs), limit_s)

    def gather(
        self, outputs: Sequence[torch.Tensor], given: torch.Tensor, root: int, limit_s: float | None
    ) -> EngineWork:
        """Gather a tensor of every rank on the root; `outputs` are empty elsewhere."""
        size, is_root = self._world.size, self._world.rank == root
        if is_root and len(outputs) != size:
            raise ConfigError(f"gather needs {size} tensors for the result on the root, and got {len(outputs)}")
        source = flat(dense(given))
        splits = [source.numel() if rank == root else 0 for rank in range(size)]
        key = ("gather", given.dtype, "to", root)
        received = self._flat_room(outputs, given) if is_root else given.new_empty(0)
        return self._calls.start(
            key, lambda name: [self._start_exchange(name, source, splits, received, outputs)], list(outputs), limit_s
        )

    def scatter(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor], root: int, limit_s: float | None
    ) -> EngineWork:
        """Send each rank its tensor of the root's list; `inputs` are empty elsewhere."""
        size = self._world.size
        if self._world.rank == root:
            if len(inputs) != size:
                raise ConfigError(f"scatter needs {size} tensors on the root, and got {len(inputs)}")
            source, splits = joined(inputs), [tensor.numel() for tensor in inputs]
        else:
            source, splits = output.new_empty(0), [0] * size
        key = ("scatter", output.dtype, "from", root)
        memory = room_for(output)

        def submit(name: str) -> list[Pending]:
            return [self._start_exchange(name, source, splits, flat(memory), (), lambda: write_back(output, memory))]

        return self._calls.start(key, submit, [output], limit_s)

    def all_to_all(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], limit_s: float | None
    ) -> EngineWork:
        """Send each rank its tensor of the list, and take one from each."""
        size = self._world.size
        if len(outputs) != size or len(inputs) != size:
            raise ConfigError(f"all_to_all needs {size} tensors for either end; got {len(inputs)} and {len(outputs)}")
        source, splits = joined(inputs), [tensor.numel() for tensor in inputs]
        received = self._flat_room(outputs, outputs[0])
        key = ("all_to_all", inputs[0].dtype)
        return self._calls.start(
            key, lambda name: [self._start_exchange(name, source, splits, received, outputs)], list(outputs), limit_s
        )

    def all_to_all_single(
        self,
        output: torch.Tensor,
        given: torch.Tensor,
        splits: tuple[Sequence[int], Sequence[int]],
        limit_s: float | None,
    ) -> EngineWork:
        """Send each rank its rows of a tensor, and take some from each.

        Args:
            output: Tensor for the received rows.
            given: Tensor of the rows that are sent.
            splits: Rows from each rank, and rows to each rank; empty for equal parts.
            limit_s: Time limit of the call, seconds; None for the group's.
        """
        taken, sent = self._elements(output, splits[0], "output"), self._elements(given, splits[1], "input")
        memory, source = room_for(output), flat(dense(given))

        def submit(name: str) -> list[Pending]:
            end = lambda: write_back(output, memory)  # noqa: E731
            return [self._start_exchange(name, source, sent, flat(memory), (), end, taken)]

        return self._calls.start(exchange_key(given), submit, [output], limit_s)

    def _elements(self, tensor: torch.Tensor, splits: Sequence[int], end: str) -> list[int]:
        rows = tensor.size(0) if tensor.dim() else 1
        row = tensor.numel() // rows if rows else 0
        size = self._world.size
        if not splits:
            if rows % size:
                raise ConfigError(
                    f"all_to_all_single: Tensor's dim 0 does not divide equally across group size: {rows} {end} rows, "
                    f"{size} ranks"
                )
            return [rows // size * row] * size
        if len(splits) != size or sum(splits) != rows:
            raise ConfigError(
                f"all_to_all_single: Split sizes doesn't match total dim 0 size: {end} splits {list(splits)} for "
                f"{rows} rows and {size} ranks"
            )
        return [count * row for count in splits]

    def _start_gather(self, name: str, given: torch.Tensor, row: Sequence[torch.Tensor]) -> Pending:
        source = operand_of(flat(dense(given)))
        memory = self._flat_room(row, given)
        counts = [tensor.numel() for tensor in row]

        def finish(result: Any) -> None:
            if list(result.rows) != counts:
                raise ConfigError(f"all_gather got {list(result.rows)} elements of the ranks, for tensors of {counts}")
            part(tensor_of(result, source) if result.memory.ctypes.data != memory.data_ptr() else memory, row)

        return start_allgather(self._world, name, source, finish, output=offered(memory))  # type: ignore[return-value]

    def _start_gather_single(self, name: str, given: torch.Tensor, output: torch.Tensor) -> Pending:
        memory = room_for(output)
        return start_allgather(  # type: ignore[return-value]
            self._world,
            name,
            operand_of(flat(dense(given))),
            lambda _: write_back(output, memory),
            output=offered(memory),
        )

    def _flat_room(self, tensors: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
        for tensor in tensors:
            check(tensor)
        return like.detach().new_empty(sum(tensor.numel() for tensor in tensors))

    def _start_exchange(  # noqa: PLR0917  (two ends of one exchange)
        self,
        name: str,
        source: torch.Tensor,
        splits: Sequence[int],
        received: torch.Tensor,
        outputs: Sequence[torch.Tensor],
        end: Callable[[], None] | None = None,
        taken: Sequence[int] | None = None,
    ) -> Pending:
        """Start an all-to-all of elements into flat memory, which is parted or written back at its end."""
        counts = [tensor.numel() for tensor in outputs] if taken is None and outputs else taken

        def finish(result: Any) -> None:
            rows = list(result.rows)
            if sum(rows) != received.numel() or (counts is not None and rows != list(counts)):
                raise ConfigError(
                    f"the ranks have sent {rows} elements, but there is room for {counts or received.numel()} here"
                )
            if end is not None:
                end()
            part(received, outputs)

        return start_alltoall(  # type: ignore[return-value]
            self._world, name, operand_of(source), list(splits), finish, output=offered(received)
        )
