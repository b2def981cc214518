# SPDX-License-Identifier: Apache-2.0
"""Cases of works and groups: futures, time limits, calls that differ, threads, ends; each checks itself."""

import gc
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

import ringtune.torch as hvd
from ringtune.errors import CollectiveTimeout, ConfigError, EngineError, MismatchError, RingtuneError
from tests.integration.torch_backend.group_cases import Tensors

SOON_S = 10.0  # longest wait for what takes no other rank


def error_of(call: Callable[[], Any], kind: type[RingtuneError]) -> str:
    """Return the text of the error that a call raises."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__} was raised")


def differing_calls() -> Tensors:
    """Ranks that call different things get an error that names both calls, and go on."""
    first, rank = torch.ones(3), dist.get_rank()
    text = error_of(lambda: dist.all_reduce(first) if rank == 0 else dist.broadcast(first, 0), MismatchError)
    assert "all_reduce SUM torch.float32 (3,)" in text, text
    assert "broadcast torch.float32 3 from 0" in text, text
    for _ in range(10):
        tensor = torch.full((3,), float(rank))
        dist.all_reduce(tensor)
        assert torch.equal(torch.full((3,), 1.0), tensor)
    return []


def differing_shapes() -> Tensors:
    """Ranks whose tensors differ in shape get an error that names both shapes."""
    rank = dist.get_rank()
    text = error_of(lambda: dist.all_reduce(torch.ones(3 + rank)), MismatchError)
    assert "(3,)" in text, text
    assert "(4,)" in text, text
    dist.barrier()
    return []


def limited_waits() -> Tensors:
    """A wait with a time limit ends in time, and the work goes on."""
    store, rank = dist.group.WORLD.get_group_store(), dist.get_rank()  # type: ignore[union-attr]
    tensor = torch.full((4,), 1.0)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        error_of(lambda: work.wait(timedelta(milliseconds=50)), CollectiveTimeout)
        assert not work.is_completed()
        store.set("rank 0 has waited", "")
        assert work.wait()
        assert work.is_completed()
    else:
        store.wait(["rank 0 has waited"])
        dist.all_reduce(tensor)
    assert torch.equal(torch.full((4,), float(dist.get_world_size())), tensor)
    return []


def limited_group() -> Tensors:
    """A group's time limit ends a call to which a rank does not come, and names that rank."""
    group = dist.new_group(list(range(dist.get_world_size())), timeout=timedelta(seconds=1))
    if dist.get_rank() == 0:
        text = error_of(lambda: dist.barrier(group), CollectiveTimeout)
        assert "rank 1" in text, text
    dist.barrier()
    return []


def limited_later() -> Tensors:
    """Torch's function that sets the time limit of a group, as torchtitan calls it, reaches groups of this backend."""
    group = dist.new_group(list(range(dist.get_world_size())))
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=1), group)
    if dist.get_rank() == 0:
        error_of(lambda: dist.barrier(group), CollectiveTimeout)
    dist.barrier()
    return []


def late_rank() -> Tensors:
    """A monitored barrier names the rank that does not come, and passes when all come."""
    dist.monitored_barrier(timeout=timedelta(seconds=SOON_S))
    if dist.get_rank() == 0:
        limit = timedelta(milliseconds=50)
        text = error_of(lambda: dist.monitored_barrier(timeout=limit, wait_all_ranks=True), CollectiveTimeout)
        assert "Ranks 1 failed to pass monitoredBarrier" in text, text
    dist.barrier()
    return []


def futures() -> Tensors:
    """Futures come true for whoever waits, calls back, or looks, with no thread in the engine."""
    size = dist.get_world_size()
    works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(20)]
    waited = torch.futures.wait_all([work.get_future() for work in works])
    assert all(torch.equal(torch.full((3,), float(size)), value[0]) for value in waited)
    doubled = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(lambda done: 2 * done.value()[0])
    assert torch.equal(torch.full((2,), 2.0 * size), doubled.wait())
    is_called = threading.Event()
    kept = dist.all_reduce(torch.ones(2), async_op=True)
    kept.get_future().add_done_callback(lambda _: is_called.set())
    assert is_called.wait(SOON_S)
    return []


def calls_from_callbacks() -> Tensors:
    """A callback starts the next call of the group, also while the program itself starts more calls than have names."""
    size, second = dist.get_world_size(), list[Any]()
    works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(4)]
    for work in works:
        work.get_future().then(lambda done: second.append(dist.all_reduce(done.value()[0].repeat(2), async_op=True)))
    for work in works:
        work.wait()
    many = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(40)]
    for work in (*second, *many):
        work.wait()
    assert all(torch.equal(torch.full((3,), float(size)), work.result()[0]) for work in many)
    assert [float(size * size)] * 4 == [work.result()[0][0].item() for work in second]
    return []


def left_works() -> Tensors:
    """Works without a waiter end all the same, and later calls are right."""
    tensors = [torch.ones(5) for _ in range(100)]
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True)
    dist.barrier()
    assert all(torch.equal(torch.full((5,), float(dist.get_world_size())), tensor) for tensor in tensors)
    return []


def threads() -> Tensors:
    """Several threads, each with a group of its own, do not disturb each other."""
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(list(range(size))) for _ in range(3)]
    wrong: list[object] = []

    def work(group: Any, number: int) -> None:
        for _ in range(50):
            tensor, joined = torch.full((100,), float(rank + number)), torch.empty(size)
            dist.all_reduce(tensor, group=group)
            dist.all_gather_into_tensor(joined, torch.full((1,), float(rank)), group=group)
            if tensor[0].item() != sum(peer + number for peer in range(size)) or joined.tolist() != list(range(size)):
                wrong.append((number, tensor[0].item(), joined))

    running = [threading.Thread(target=work, args=pair) for pair in zip(groups, range(3), strict=True)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong
    return []


def aborted() -> Tensors:
    """An aborted group ends its works with an error and refuses calls; others go on."""
    group = dist.new_group(list(range(dist.get_world_size())))
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.ones(2), group=group, async_op=True)
        assert group is not None
        group.abort()
        assert "aborted" in error_of(work.wait, EngineError)
        assert "aborted" in error_of(lambda: dist.all_reduce(torch.ones(2), group=group), ConfigError)
    dist.barrier()
    return []


def shared_engine() -> Tensors:
    """A front end of ringtune finds the world of the default group, and keeps it when the group is destroyed."""
    rank, size = dist.get_rank(), dist.get_world_size()
    hvd.init()
    assert (rank, size) == (hvd.rank(), hvd.size())
    total = hvd.allreduce(torch.full((2,), float(rank)), op=hvd.Sum)
    dist.barrier()
    dist.destroy_process_group()
    assert torch.equal(total, hvd.allreduce(torch.full((2,), float(rank)), op=hvd.Sum))
    hvd.shutdown()
    return []


def hung_up_message() -> Tensors:
    """A receive without a sender ends by its time limit."""
    if dist.get_rank() == 0:
        work = dist.irecv(torch.empty(2), 1)
        begin_s = time.monotonic()
        assert work is not None
        error_of(lambda: work.wait(timedelta(milliseconds=50)), CollectiveTimeout)
        assert time.monotonic() - begin_s < SOON_S
    dist.barrier()
    if dist.get_rank() == 1:
        dist.send(torch.ones(2), 0)
    if dist.get_rank() == 0:
        assert work is not None
        work.wait()
    return []


def refused_calls() -> Tensors:
    """A root that is none of the group's ranks, and several tensors in a call that takes one, are refused."""
    tensor, size = torch.ones(2), dist.get_world_size()
    for call in (
        lambda: dist.reduce(tensor, size),
        lambda: dist.gather(tensor, None, size),
        lambda: dist.scatter(tensor, None, size),
    ):
        assert f"invalid root rank {size}" in error_of(call, ConfigError)
    group = dist.group.WORLD
    assert group is not None
    assert "got 2" in error_of(lambda: group.allreduce([tensor, tensor.clone()]), ConfigError)
    dist.barrier()
    return []


def freed() -> Tensors:
    """A destroyed default group ends at once, and torch's store with it; the garbage collector has nothing to do."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))])
    optimizer.step()
    dist.barrier()
    gc.disable()
    group = weakref.ref(dist.group.WORLD)
    dist.destroy_process_group()
    assert group() is None
    gc.enable()
    return []


CASES: dict[str, Callable[[], Tensors]] = {
    case.__name__: case
    for case in (
        *(
            differing_calls,
            differing_shapes,
            limited_waits,
            limited_group,
            limited_later,
            late_rank,
            futures,
            left_works,
            calls_from_callbacks,
        ),
        *(threads, aborted, hung_up_message, shared_engine, refused_calls, freed),
    )
}
OWN_CASES: dict[str, Callable[[], Tensors]] = {}
