# SPDX-License-Identifier: Apache-2.0
"""Cases of a process group: each makes calls, checks itself, and returns tensors for comparison with Gloo."""

from collections.abc import Callable
from datetime import timedelta

import torch
from torch import distributed as dist
from torch.distributed import ReduceOp

from tests.collectives.cases import bound
from tests.collectives.group_front_end import GroupFrontEnd

Tensors = list[torch.Tensor]


def values(shape: tuple[int, ...], dtype: torch.dtype, rank: int, seed: int = 0) -> torch.Tensor:
    """Return the same small numbers on every call with the same arguments."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(1, 4, shape, generator=generator).to(dtype)


def _total(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.stack([values(shape, torch.float32, rank) for rank in range(dist.get_world_size())]).sum(0)


def shared() -> Tensors:
    """The cases of all front ends."""
    for case in bound(GroupFrontEnd()).values():
        case()
    return []


def bits() -> Tensors:
    """The reductions of bits."""
    found = []
    for dtype in (torch.uint8, torch.int32, torch.int64):
        for operation in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
            tensor = values((33,), dtype, dist.get_rank())
            dist.all_reduce(tensor, operation)
            found.append(tensor)
    return found


def sums_of_floats() -> Tensors:
    """Sums of floats that are rounded: two ranks have one order."""
    found = []
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        torch.manual_seed(dist.get_rank())
        tensor = torch.randn(5000, dtype=torch.float64).to(dtype)
        dist.all_reduce(tensor)
        found.append(tensor)
    return found


def complex_numbers() -> Tensors:
    """Complex numbers, summed and moved."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = torch.complex(values((7,), torch.float32, rank), values((7,), torch.float32, rank, 1))
    rows = [torch.empty_like(tensor) for _ in range(size)]
    dist.all_gather(rows, tensor)
    dist.all_reduce(tensor)
    return [tensor, *rows]


def holes() -> Tensors:
    """Tensors whose memory has holes, or another order than their elements; Gloo takes them for dense ones."""
    rank, size = dist.get_rank(), dist.get_world_size()
    reduced = values((6, 8), torch.float32, rank).t()[::2]
    dist.all_reduce(reduced)
    assert torch.equal(_total((6, 8)).t()[::2], reduced)
    sent = values((6, 8), torch.float32, rank).t()[1:5:2]
    dist.broadcast(sent, size - 1)
    assert torch.equal(values((6, 8), torch.float32, size - 1).t()[1:5:2], sent)
    room = torch.zeros(12, size)
    dist.all_gather([room[:, peer] for peer in range(size)], values((24,), torch.float32, rank)[::2])
    assert torch.equal(torch.stack([values((24,), torch.float32, peer)[::2] for peer in range(size)], 1), room)
    image = values((2, 3, 4, 4), torch.float32, rank).to(memory_format=torch.channels_last)
    dist.all_reduce(image)
    assert torch.equal(_total((2, 3, 4, 4)), image)
    parts = torch.zeros(3, 2).t()
    dist.reduce_scatter_tensor(parts, values((2 * size, 3), torch.float32, rank))
    assert torch.equal(_total((2 * size, 3))[2 * rank : 2 * rank + 2], parts)
    return []


def moves() -> Tensors:
    """Broadcast, gathers, scatters and exchanges, in lists and in one tensor."""
    rank, size, found = dist.get_rank(), dist.get_world_size(), []
    for dtype in (torch.float32, torch.int64, torch.bool):
        own = values((2, 3), dtype, rank)
        copied = own.clone()
        dist.broadcast(copied, size - 1)
        rows = [torch.empty_like(own) for _ in range(size)]
        dist.all_gather(rows, own)
        joined = own.new_empty(2 * size, 3)
        dist.all_gather_into_tensor(joined, own)
        on_root = [torch.empty_like(own) for _ in range(size)] if rank == 0 else None
        dist.gather(own, on_root, dst=0)
        part = torch.empty_like(own)
        dist.scatter(
            part, [values((2, 3), dtype, peer, 5) for peer in range(size)] if rank == 1 % size else None, 1 % size
        )
        found += [copied, *rows, joined, *(on_root or ()), part]
    return found


def reduced_parts() -> Tensors:
    """Reduce to a root, and reduce-scatter of lists, tensors and several tensors."""
    rank, size = dist.get_rank(), dist.get_world_size()
    on_root = values((5,), torch.float32, rank)
    dist.reduce(on_root, 0)
    part = torch.empty(4)
    dist.reduce_scatter(part, [values((4,), torch.float32, rank, peer) for peer in range(size)])
    single = torch.empty(2, 2)
    dist.reduce_scatter_tensor(single, values((2 * size, 2), torch.float32, rank, 3))
    return [*([on_root] if rank == 0 else []), part, single]


def lists_of_unequal_parts() -> Tensors:
    """All-to-all of lists, and gathers of tensors of different sizes."""
    rank, size = dist.get_rank(), dist.get_world_size()
    given = [torch.full((rank + peer + 1,), float(10 * rank + peer)) for peer in range(size)]
    taken = [torch.empty(rank + peer + 1) for peer in range(size)]
    dist.all_to_all(taken, given)
    for peer, tensor in enumerate(taken):
        assert torch.equal(torch.full((rank + peer + 1,), float(10 * peer + rank)), tensor)
    rows = [torch.empty(peer + 1) for peer in range(size)]
    dist.all_gather(rows, torch.full((rank + 1,), float(rank)))
    for peer, tensor in enumerate(rows):
        assert torch.equal(torch.full((peer + 1,), float(peer)), tensor)
    return [*taken, *rows]


def scaled_sums() -> Tensors:
    """PREMUL_SUM, against one process's results."""
    rank, size = dist.get_rank(), dist.get_world_size()
    scaled = torch.full((9,), float(rank))
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(2.0))  # type: ignore[attr-defined]
    assert torch.equal(torch.full((9,), float(size * (size - 1))), scaled)
    return [scaled]


def sparse() -> Tensors:
    """Sums of sparse tensors with entries at different places."""
    rank = dist.get_rank()
    tensor = torch.sparse_coo_tensor(torch.tensor([[rank, rank + 1]]), torch.tensor([1.0, 2.0]), (8,))
    dist.all_reduce(tensor)
    return [tensor.to_dense()]


def coalesced() -> Tensors:
    """Several tensors in one call."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = [values((3,), torch.float32, rank), values((2, 2), torch.float32, rank, 1)]
    dist.all_reduce_coalesced(tensors)
    with dist._coalescing_manager():  # type: ignore[attr-defined]
        joined = [torch.empty(3 * size), torch.empty(2 * size)]
        dist.all_gather_into_tensor(joined[0], values((3,), torch.float32, rank))
        dist.all_gather_into_tensor(joined[1], values((2,), torch.float32, rank))
    return [*tensors, *joined]


def objects() -> Tensors:
    """Objects of any kind, which torch itself turns into bytes."""
    rank, size = dist.get_rank(), dist.get_world_size()
    everything: list[object] = [None] * size
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * rank})
    assert [{"rank": peer, "text": "x" * peer} for peer in range(size)] == everything
    received = [["from", 1]] if rank == 1 else [None]
    dist.broadcast_object_list(received, 1)
    assert [["from", 1]] == received
    on_root: list[object] | None = [None] * size if rank == 0 else None
    dist.gather_object(rank, on_root, dst=0)
    assert rank != 0 or list(range(size)) == on_root
    mine: list[object] = [None]
    dist.scatter_object_list(mine, [f"for {peer}" for peer in range(size)] if rank == 0 else None, src=0)
    assert [f"for {rank}"] == mine
    return []


def messages() -> Tensors:
    """Messages in a ring, with tags out of order, by lists, and from whichever rank sends."""
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    rooms = [torch.empty(4), torch.empty(100_000)]
    works = [
        dist.isend(torch.full((100_000,), float(rank)), after, tag=2),
        dist.isend(torch.full((4,), float(10 + rank)), after, tag=1),
        dist.irecv(rooms[0], before, tag=1),
        dist.irecv(rooms[1], before, tag=2),
    ]
    for work in works:
        assert work is not None
        work.wait()
    room = torch.empty(3)
    listed = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, torch.full((3,), float(rank)), after), dist.P2POp(dist.irecv, room, before)]
    )
    for work in listed:
        work.wait()
    return [*rooms, room, *_from_any()]


def _from_any() -> Tensors:
    rank, size = dist.get_rank(), dist.get_world_size()
    room = torch.zeros(2)
    if rank != 0:
        dist.send(torch.full((2,), float(rank)), 0)
        return []
    senders = set()
    for _ in range(size - 1):
        sender = dist.recv(room)
        assert float(sender) == room[0].item()
        senders.add(sender)
    assert set(range(1, size)) == senders
    return []


def groups() -> Tensors:
    """Overlapping groups, one of them of the same ranks, with calls in different order on different groups."""
    rank, size = dist.get_rank(), dist.get_world_size()
    again = dist.new_group(list(range(size)))
    first = dist.new_group([0, 1])
    last = dist.new_group([size - 1, size - 2])
    found = []
    for group, members in ((again, range(size)), (first, (0, 1)), (last, (size - 2, size - 1))):
        if rank in members:
            tensor = values((6,), torch.float32, rank)
            dist.all_reduce(tensor, group=group)
            found.append(tensor)
    works = [dist.all_reduce(tensor, group=again, async_op=True) for tensor in found[:1]]
    dist.barrier()
    for work in works:
        work.wait()
    dist.destroy_process_group(again)
    return found


def tensors_twice() -> Tensors:
    """A list with a tensor twice, or with views that overlap, is summed once."""
    rank, found = dist.get_rank(), []
    for count in (5, 1 << 18):  # of more than 1 MiB, the engine makes one tensor after the other
        twice, whole = values((count,), torch.int64, rank), values((count,), torch.float32, rank)
        dist.all_reduce_coalesced([twice, twice])
        dist.all_reduce_coalesced([whole[: count // 2 + 1], whole[count // 2 :]])
        found += [twice, whole]
    return found


def methods_of_the_group() -> Tensors:
    """Methods of the group's object take roots, reductions and time limits by keyword."""
    group, rank, size, limit = dist.group.WORLD, dist.get_rank(), dist.get_world_size(), timedelta(seconds=60)
    assert group is not None
    own, largest, part, scattered = (values((3,), torch.float32, rank) for _ in range(4))
    rows = [torch.empty(3) for _ in range(size)] if rank == 0 else []
    sent = [values((3,), torch.float32, rank, peer) for peer in range(size)]
    group.allreduce(largest, op=dist.ReduceOp.MAX, timeout=limit).wait()
    group.gather(rows, own, root=0, timeout=limit).wait()
    group.scatter(scattered, sent if rank == 1 % size else [], root=1 % size, timeout=limit).wait()
    group.reduce_scatter(part, sent, op=dist.ReduceOp.MAX, timeout=limit).wait()
    return [largest, *rows, scattered, part]


CASES: dict[str, Callable[[], Tensors]] = {
    case.__name__: case
    for case in (
        *(bits, sums_of_floats, complex_numbers, moves, reduced_parts),
        *(sparse, coalesced, tensors_twice, methods_of_the_group, objects, messages, groups),
    )
}
"""Cases that Gloo passes too, with the same bits on two ranks."""

OWN_CASES: dict[str, Callable[[], Tensors]] = {
    case.__name__: case for case in (shared, holes, lists_of_unequal_parts, scaled_sums)
}
"""Cases that Gloo refuses; they check themselves."""
