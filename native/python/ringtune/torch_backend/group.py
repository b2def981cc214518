# SPDX-License-Identifier: Apache-2.0
"""The process group: torch's methods, each of which starts one call."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import ProcessGroup, Work

from ringtune.errors import ConfigError
from ringtune.world.world import World

from .call_book import CallBook
from .calls import Calls
from .devices import OtherBackends, by_device
from .meeting import Member, join
from .monitored_barrier import MonitoredBarrier
from .moving import Moving
from .pairs import Pairs
from .reducing import Reducing
from .registration import NAME
from .steps import OptimizerSteps
from .work_kinds import MessageWork, Together, Unnumbered
from .works import FutureKeeper, Pending

SUM = torch.distributed.ReduceOp.SUM


class RingtuneGroup(ProcessGroup):
    """A process group on the engine, as `init_process_group("ringtune")` and `new_group` make it."""

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False

    def __init__(self, member: Member) -> None:
        """Join the group's world.

        Args:
            member: This rank's part in the group.
        """
        book = self._begin(member)
        self._member = member
        self._membership = join(member)
        world = self.world
        self._futures = FutureKeeper()
        self._calls = Calls(member.store, member.rank, member.size, self._futures, book)
        self._reducing = Reducing(world, self._calls)
        self._moving = Moving(world, self._calls)
        self._pairs = Pairs(member, world)
        self._monitored = MonitoredBarrier(member)
        self._others = OtherBackends(member)
        self._steps = OptimizerSteps(self, world) if self._membership.is_shared else None
        has_own_limit = world.settings.timeout_s != member.timeout_s  # the world was there before the group
        self._limit_s: float | None = member.timeout_s if has_own_limit else None
        self._group_name = ""
        self._group_desc = "undefined"
        self._coalesced: list[Work] | None = None
        self._barrier_tensor = torch.zeros(1, dtype=torch.uint8)

    def _begin(self, member: Member) -> CallBook:
        """Make the C++ object below this one, and the book of its calls."""
        super().__init__(member.rank, member.size)  # type: ignore[call-arg]
        return CallBook()

    def getBackendName(self) -> str:  # noqa: N802  (torch's name)
        """Return the backend's name."""
        return NAME

    def getGroupName(self) -> str:  # noqa: N802  (torch's name)
        """Return the name that torch has given to the group."""
        return self._group_name

    def setGroupName(self, name: str) -> None:  # noqa: N802  (torch's name)
        """Take the name that torch gives to the group."""
        self._group_name = name

    def getGroupDesc(self) -> str:  # noqa: N802  (torch's name)
        """Return the group's purpose."""
        return self._group_desc

    def setGroupDesc(self, description: str) -> None:  # noqa: N802  (torch's name)
        """Take the group's purpose."""
        self._group_desc = description

    @property
    def world(self) -> World:
        """The world of the group's ranks."""
        return self._membership.world

    def get_group_store(self) -> Any:
        """Return torch's store for this group."""
        return self._member.store

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(device) for device in self._others.backends(self) or ("cpu",)]

    def other_group(self, device: str) -> ProcessGroup | None:
        """Return the group of another backend that serves a type of device; None where this one does."""
        return self._others.group_for(self, device)

    def has_other_backends(self) -> bool:
        """Return whether another backend serves a type of device."""
        return any(name != NAME for name in self._others.backends(self).values())

    def _get_backend(self, device: torch.device) -> Any:
        kind = torch.device(device)
        if kind not in self._device_types:
            raise RuntimeError(f"No backend type associated with device type {kind.type}")
        other = self.other_group(kind.type)
        return self if other is None else other._get_backend(kind)  # noqa: SLF001

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self._set_limit(timeout.total_seconds())

    def _set_limit(self, limit_s: float | None) -> None:
        self._limit_s = limit_s

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time limit of later calls."""
        self._set_limit(timeout.total_seconds())

    def _set_sequence_number_for_group(self) -> None:
        """Agree on the number of the first call: it is the same everywhere already."""

    def _get_sequence_number_for_group(self) -> int:
        return self._calls.number

    def abort(self) -> None:
        """Leave the group at once; calls under way fail here and on the other ranks."""
        self.shutdown()

    def shutdown(self) -> None:
        """Leave the group; later calls raise `ConfigError`."""
        self._calls.close()
        self._others.shutdown()
        self._pairs.close()
        self._membership.leave()
        if self._steps is not None:
            self._steps.close()
            self._steps = None  # holds this group: torch's store would live until the garbage collector comes

    @by_device
    def allreduce(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None, op: Any = None) -> Work:  # type: ignore[override]
        """See `torch.distributed.all_reduce`."""
        tensor = tensors if isinstance(tensors, torch.Tensor) else _single(tensors)
        work = self._reducing.allreduce("all_reduce", [tensor], _operation(opts, op), self._limit(opts, timeout))
        return self._begun(work)

    @by_device
    def allreduce_coalesced(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> Work:
        """See `torch.distributed.all_reduce_coalesced`."""
        return self._begun(
            self._reducing.allreduce("all_reduce_coalesced", tensors, _operation(opts), self._limit(opts))
        )

    @by_device
    def reduce(  # type: ignore[override]
        self, tensors: Any, opts: Any = None, op: Any = SUM, timeout: timedelta | None = None, **given: Any
    ) -> Work:
        """See `torch.distributed.reduce`."""
        tensor = tensors if isinstance(tensors, torch.Tensor) else _single(tensors)
        root = self._root(opts, given)
        operation = getattr(opts, "reduceOp", op)
        return self._begun(self._reducing.reduce(tensor, root, operation, self._limit(opts, timeout)))

    @by_device
    def reduce_scatter(  # type: ignore[override]
        self, outputs: Any, inputs: Any, opts: Any = None, timeout: timedelta | None = None, op: Any = None
    ) -> Work:
        """See `torch.distributed.reduce_scatter`."""
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        return self._begun(
            self._reducing.reduce_scatter(_single(outputs), inputs[0], _operation(opts, op), self._limit(opts, timeout))
        )

    @by_device
    def reduce_scatter_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Work:
        """See `torch.distributed.reduce_scatter_tensor`."""
        return self.reduce_scatter_single_coalesced([output], [given], opts)

    @by_device
    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> Work:
        """Do so for several tensors at once."""
        return self._begun(self._reducing.reduce_scatter_single(outputs, inputs, _operation(opts), self._limit(opts)))

    _reduce_scatter_base = reduce_scatter_single  # type: ignore[assignment]
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced  # type: ignore[assignment]

    @by_device
    def broadcast(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None, **given: Any) -> Work:  # type: ignore[override]
        """See `torch.distributed.broadcast`."""
        tensor = tensors if isinstance(tensors, torch.Tensor) else _single(tensors)
        root = self._root(opts, given)
        return self._begun(self._moving.broadcast(tensor, root, self._limit(opts, timeout)))

    @by_device
    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: timedelta | None = None) -> Work:  # type: ignore[override]
        """See `torch.distributed.all_gather`."""
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        return self._begun(self._moving.all_gather(outputs, inputs, self._limit(opts, timeout)))

    @by_device
    def allgather_coalesced(self, outputs: Any, inputs: Sequence[torch.Tensor], opts: Any = None) -> Work:
        """See `torch.distributed.all_gather_coalesced`."""
        by_input = list(zip(*outputs, strict=True))
        return self._begun(self._moving.all_gather(by_input, inputs, self._limit(opts), "all_gather_coalesced"))

    @by_device
    def all_gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Work:
        """See `torch.distributed.all_gather_into_tensor`."""
        return self.all_gather_single_coalesced([output], [given], opts)

    @by_device
    def all_gather_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> Work:
        """Do so for several tensors at once."""
        return self._begun(self._moving.all_gather_single(outputs, inputs, self._limit(opts)))

    _allgather_base = all_gather_single  # type: ignore[assignment]
    allgather_into_tensor_coalesced = all_gather_single_coalesced  # type: ignore[assignment]

    @by_device
    def gather(  # type: ignore[override]
        self, outputs: Any, inputs: Any, opts: Any = None, timeout: timedelta | None = None, **given: Any
    ) -> Work:
        """See `torch.distributed.gather`."""
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        root = self._root(opts, given)
        rows = outputs[0] if outputs else ()
        return self._begun(self._moving.gather(rows, _single(inputs), root, self._limit(opts, timeout)))

    @by_device
    def scatter(  # type: ignore[override]
        self, outputs: Any, inputs: Any, opts: Any = None, timeout: timedelta | None = None, **given: Any
    ) -> Work:
        """See `torch.distributed.scatter`."""
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        root = self._root(opts, given)
        rows = inputs[0] if inputs else ()
        return self._begun(self._moving.scatter(_single(outputs), rows, root, self._limit(opts, timeout)))

    @by_device
    def alltoall(  # type: ignore[override]
        self,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> Work:
        """See `torch.distributed.all_to_all`."""
        return self._begun(self._moving.all_to_all(outputs, inputs, self._limit(opts, timeout)))

    @by_device
    def all_to_all_single(  # type: ignore[override]  # noqa: PLR0917  (torch's signature)
        self,
        output: torch.Tensor,
        given: torch.Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> Work:
        """See `torch.distributed.all_to_all_single`."""
        splits = (output_split_sizes or (), input_split_sizes or ())
        return self._begun(self._moving.all_to_all_single(output, given, splits, self._limit(opts, timeout)))

    alltoall_base = all_to_all_single  # type: ignore[assignment]

    def barrier(self, opts: Any = None, timeout: timedelta | None = None) -> Work:  # type: ignore[override]
        """See `torch.distributed.barrier`."""
        return self._begun(self._reducing.allreduce("barrier", [self._barrier_tensor], SUM, self._limit(opts, timeout)))

    def monitored_barrier(
        self,
        timeout: timedelta | None = None,
        wait_all_ranks: bool = False,  # noqa: FBT002  (torch's signature)
    ) -> None:
        """See `torch.distributed.monitored_barrier`."""
        limit_s = self._member.timeout_s if timeout is None else timeout.total_seconds()
        self._monitored.meet(limit_s, waits_for_all=wait_all_ranks)

    @by_device
    def send(self, tensors: Sequence[torch.Tensor], dst_rank: int, tag: int = 0) -> Work:
        """See `torch.distributed.isend`."""
        message = self._pairs.send(_single(tensors), dst_rank, tag)
        return self._message_work(f"send to {dst_rank}", message, list(tensors))

    @by_device
    def recv(self, tensors: Sequence[torch.Tensor], src_rank: int, tag: int = 0) -> Work:
        """See `torch.distributed.irecv`."""
        message = self._pairs.receive(_single(tensors), src_rank, tag)
        work = self._message_work(f"recv from {src_rank}", message, list(tensors))
        work.source = src_rank
        return work

    @by_device
    def recv_anysource(self, tensors: Sequence[torch.Tensor], tag: int = 0) -> Work:
        """See `torch.distributed.irecv` without a source."""
        sources: list[int] = []
        message = self._pairs.receive_any(_single(tensors), tag, sources.append)
        work = self._message_work("recv from any", message, list(tensors))
        work.sources = sources
        return work

    def _start_coalescing(self, device: torch.device) -> None:
        del device
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> Work:
        del device
        works, self._coalesced = self._coalesced or [], None
        return Together(self._calls, "coalesced", -1, works, [])  # type: ignore[arg-type]

    def _message_work(self, kind: str, message: Pending, tensors: list[torch.Tensor]) -> MessageWork:
        work = MessageWork(
            Unnumbered(self._futures), kind, 0, [message], tensors, self._limit_s or self._member.timeout_s
        )
        self._begun(work)
        return work

    def _begun(self, work: Work) -> Work:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _root(self, opts: Any, given: dict[str, Any]) -> int:
        """Return the root out of a call's options or keywords, or the options where they are it."""
        root = int(given.get("root", opts if isinstance(opts, int) else getattr(opts, "rootRank", 0)))
        if not 0 <= root < self._member.size:
            raise ConfigError(f"invalid root rank {root}: the ranks of this group are 0 to {self._member.size - 1}")
        return root

    def _limit(self, opts: Any, timeout: timedelta | None = None) -> float | None:
        """Return the time limit of one call, seconds; None where the call sets none beside the group's."""
        given = opts if isinstance(opts, timedelta) else timeout or getattr(opts, "timeout", None)
        if given is None or given <= timedelta():
            return self._limit_s
        return float(given.total_seconds())


def _operation(opts: Any, op: Any = None) -> Any:
    """Return the reduction that a call names, or that of its options, or the options where they are one."""
    return (
        op
        if op is not None
        else getattr(opts, "reduceOp", SUM if opts is None or isinstance(opts, timedelta) else opts)
    )


def _single(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    if len(tensors) != 1:
        raise ConfigError(f"the backend ringtune takes one tensor per call here, and got {len(tensors)}")
    return tensors[0]
