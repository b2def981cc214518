# SPDX-License-Identifier: Apache-2.0
"""Order on a device: kernels that are late before an operation and after it, streams, memory that is used again.

Whatever reads too early finds another value than the right one: sources are filled late, results are read by late
kernels after their sources were overwritten, memory that is let go of is taken and poisoned at once.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

import ringtune.torch as hvd
from tests.gpu.checks import Bench, checks_of, main

ROUNDS = 20
LATE_MS = 4.0
SIZES = (1, 1031, 300_007)
WRONG = -7.0


@contextmanager
def side_stream(bench: Bench) -> Iterator[Any]:
    """Work on a stream of its own, which is ordered against no other."""
    stream = torch.cuda.Stream(bench.device) if bench.is_gpu else None
    with torch.cuda.stream(stream) if stream is not None else nullcontext():
        yield stream


def late_source(bench: Bench, size: int, value: float) -> torch.Tensor:
    """Return a tensor that holds the value only when a late kernel has run."""
    source = torch.full((size,), WRONG, device=bench.device)
    bench.sleep(LATE_MS)
    return source.fill_(value)


def total(value: float) -> float:
    """Return the sum over the ranks of their contributions: the value, times the rank's number from 1."""
    return value * sum(range(1, hvd.size() + 1))


def require(results: list[tuple[torch.Tensor, float]]) -> None:
    """Require each tensor to hold one value everywhere."""
    for number, (tensor, value) in enumerate(results):
        wrong = (tensor != value).sum().item()
        assert wrong == 0, (
            f"result {number}: {wrong} of {tensor.numel()} elements are not {value}: {tensor.flatten()[:4]}"
        )


def check_late_gradient(bench: Bench) -> None:
    """A source that is filled by a late kernel arrives filled."""
    results = []
    for number in range(ROUNDS):
        source = late_source(bench, SIZES[number % 3], (hvd.rank() + 1.0) * number)
        results.append((hvd.allreduce(source, op=hvd.Sum), total(number)))
    require(results)


def check_late_reader(bench: Bench) -> None:
    """A result is right for a late reader, though its source is overwritten and let go of meanwhile."""
    results = []
    for number in range(ROUNDS):
        size = SIZES[number % 3]
        source = late_source(bench, size, (hvd.rank() + 1.0) * number)
        result = hvd.allreduce(source, op=hvd.Sum)
        source.fill_(WRONG)
        del source
        bench.sleep(LATE_MS)
        copy = result.clone()
        result.fill_(WRONG)
        del result
        torch.full((size,), WRONG, device=bench.device)
        results.append((copy, total(number)))
    require(results)


def check_in_place(bench: Bench) -> None:
    """In place: the tensor is read after the late kernel that fills it, and written before the late one that reads."""
    results = []
    for number in range(ROUNDS):
        tensor = late_source(bench, SIZES[number % 3], (hvd.rank() + 1.0) * number)
        hvd.allreduce_(tensor, op=hvd.Sum)
        bench.sleep(LATE_MS)
        results.append((tensor.clone(), total(number)))
        tensor.fill_(WRONG)
    require(results)


def check_many_in_flight(bench: Bench) -> None:
    """Sources that become ready in turn while others are reduced."""
    for _ in range(5):
        handles = [
            hvd.allreduce_async_(late_source(bench, SIZES[number % 3], (hvd.rank() + 1.0) * number), op=hvd.Sum)
            for number in range(ROUNDS)
        ]
        require([(hvd.synchronize(handle), total(number)) for number, handle in enumerate(handles)])


def check_side_streams(bench: Bench) -> None:
    """Submitted on one stream, waited for on another, read on that one: no host waits in between."""
    results = []
    for number in range(ROUNDS):
        size = SIZES[number % 3]
        with side_stream(bench):
            handle = hvd.allreduce_async(late_source(bench, size, (hvd.rank() + 1.0) * number), op=hvd.Sum)
        with side_stream(bench) as reading:
            result = hvd.synchronize(handle)
            bench.sleep(LATE_MS)
            copy = result.clone()
            result.fill_(WRONG)
        del result, handle
        with side_stream(bench):
            torch.full((size,), WRONG, device=bench.device)
        if reading is not None:
            torch.cuda.current_stream(bench.device).wait_stream(reading)
            copy.record_stream(torch.cuda.current_stream(bench.device))
        results.append((copy, total(number)))
    require(results)


def check_copies(bench: Bench) -> None:
    """Tensors with holes: their copies are made after the late kernel, and are copied back on the waiting stream."""
    results = []
    for number in range(ROUNDS):
        whole = torch.full((SIZES[number % 3], 2), WRONG, device=bench.device)
        bench.sleep(LATE_MS)
        whole[:, 1] = (hvd.rank() + 1.0) * number
        hvd.allreduce_(whole[:, 1], op=hvd.Sum)
        bench.sleep(LATE_MS)
        results += [(whole[:, 1].clone(), total(number)), (whole[:, 0].clone(), WRONG)]
    require(results)


def check_other_operations(bench: Bench) -> None:
    """Broadcast, allgather, alltoall and reducescatter of late sources, read late."""
    size, rank = hvd.size(), hvd.rank()
    results = []
    for number in range(ROUNDS // 2):
        value = (rank + 1.0) * number
        sent = hvd.broadcast_(late_source(bench, 1031, value), number % size)
        kept = hvd.reducescatter(late_source(bench, 2 * size * 1031, value), op=hvd.Sum)
        gathered = hvd.allgather(late_source(bench, 1031, value))
        received = hvd.alltoall(late_source(bench, size * 1031, value))
        bench.sleep(LATE_MS)
        results += [(sent, (number % size + 1.0) * number), (kept.clone(), total(number))]
        for rows in (gathered, received):
            assert isinstance(rows, torch.Tensor)
            results += [(part, (other + 1.0) * number) for other, part in enumerate(rows.chunk(size))]
    require(results)


def check_threads(bench: Bench) -> None:
    """Several threads submit and wait on streams of their own."""
    problems: list[str] = []

    def work(thread: int) -> None:
        try:
            with side_stream(bench):
                for number in range(ROUNDS):
                    source = late_source(bench, SIZES[number % 3], (hvd.rank() + 1.0) * number)
                    result = hvd.allreduce(source, name=f"thread.{thread}.{number}", op=hvd.Sum)
                    require([(result, total(number))])
        except Exception as error:  # noqa: BLE001  (to be raised in the main thread)
            problems.append(repr(error))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems


def check_polling(bench: Bench) -> None:
    """`poll` turns true, and the result is in place then for every stream."""
    results = []
    for number in range(ROUNDS):
        handle = hvd.allreduce_async(late_source(bench, 1031, (hvd.rank() + 1.0) * number), op=hvd.Sum)
        while not hvd.poll(handle):
            pass
        results.append((hvd.synchronize(handle), total(number)))
    require(results)


def check_backward_on_a_side_stream(bench: Bench) -> None:
    """A model trained on a side stream with late kernels ends with the weights of one trained in CPU memory."""
    ended = []
    for device in (bench.reference, bench.device):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).double()
        model.to(device)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters())
        with side_stream(bench):
            bench.finish()
            for step in range(5):
                generator = torch.Generator().manual_seed(10 * step + hvd.rank())
                rows = torch.randn(16, 8, dtype=torch.float64, generator=generator).to(device)
                optimizer.zero_grad()
                loss = model(rows).square().mean()
                bench.sleep(LATE_MS)
                loss.backward()
                optimizer.step()
            bench.finish()
        ended.append([parameter.detach().cpu() for parameter in model.parameters()])
    for expected, got in zip(*ended, strict=True):
        assert torch.allclose(expected, got, rtol=1e-9, atol=1e-11), (expected - got).abs().max()


if __name__ == "__main__":
    main(checks_of(globals()))
