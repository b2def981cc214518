# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors on the stand-in for the driver: every operation and dtype, late, against the same in CPU memory."""

import gc
import sys
from collections.abc import Callable
from typing import Any

import torch

import ringtune.torch as hvd
from ringtune.session.session import SESSION
from ringtune.torch.buffers import ENGINE_DTYPES, MOVABLE_DTYPES
from tests.integration.plain_rank import run_cases, say
from tests.integration.standin_device import DeviceTensor, Machine, load_libraries, on_device

Tensors = list[torch.Tensor]
SHAPES = ((), (0,), (1,), (3, 5), (1031,), (20_011,))
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
OPS = (hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product)


def values_of(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Return this rank's values in CPU memory: their sums round."""
    generator = torch.Generator().manual_seed(1000 * seed + hvd.rank())
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 100, shape, generator=generator).to(dtype)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's bytes."""
    if tensor.dtype not in ENGINE_DTYPES:  # torch copies no integers that are smaller than a byte
        return tensor.view(torch.uint8).cpu().detach().reshape(-1)
    return tensor.cpu().detach().contiguous().reshape(-1).view(torch.uint8)


def compare(machine: Machine, about: object, brought: Tensors, call: Callable[[Tensors], Any]) -> None:
    """Make a call with tensors in CPU memory and with late ones on the device, and require the same bits."""
    expected = call([tensor.clone() for tensor in brought])
    got = call([machine.late(tensor.clone()) for tensor in brought])
    pairs = zip(_list(expected), _list(got), strict=True)
    for right, result in pairs:
        assert isinstance(result, DeviceTensor), f"{about}: in CPU memory"
        assert (right.dtype, right.shape) == (result.dtype, result.shape), about
        assert torch.equal(bits(right), bits(result)), about


def _list(result: Any) -> Tensors:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def case_allreduce(machine: Machine) -> None:
    """Every dtype and operation; in place, and not; many in flight."""
    for dtype in ENGINE_DTYPES:
        ops = [op for op in OPS if dtype is not torch.bool or op != hvd.Average]
        for op in [*ops, hvd.Adasum] if dtype in FLOATS else ops:
            brought = [values_of(dtype, shape, seed) for seed, shape in enumerate(SHAPES)]

            def away(tensors: Tensors, op: hvd.ReduceOp = op) -> Tensors:
                return [hvd.synchronize(handle) for handle in [hvd.allreduce_async(each, op=op) for each in tensors]]

            def in_place(tensors: Tensors, op: hvd.ReduceOp = op) -> Tensors:
                for handle in [hvd.allreduce_async_(each, op=op) for each in tensors]:
                    hvd.synchronize(handle)
                return tensors

            compare(machine, (dtype, op), brought, away)
            compare(machine, (dtype, op, "in place"), brought, in_place)


def case_others(machine: Machine) -> None:
    """Groups, layouts, reducescatter, compression."""
    brought = [values_of(dtype, (seed + 3, 2), seed) for seed, dtype in enumerate(ENGINE_DTYPES)]
    compare(machine, "grouped", brought, lambda tensors: hvd.grouped_allreduce(tensors, op=hvd.Sum))
    compare(machine, "grouped_", brought, lambda tensors: hvd.grouped_allreduce_(tensors, op=hvd.Max))
    image = [values_of(torch.float32, (2, 3, 8, 9), 1)]
    compare(machine, "holes", image, lambda tensors: hvd.allreduce_(tensors[0][:, :, ::2]))
    compare(machine, "transposed", image, lambda tensors: hvd.allreduce(tensors[0].transpose(1, 3)))
    last = [image[0].contiguous(memory_format=torch.channels_last)]
    compare(machine, "channels_last", last, lambda tensors: hvd.allreduce_(tensors[0]))
    compare(machine, "a broadcast with holes", image, lambda tensors: hvd.broadcast_(tensors[0][::2, :, 1::3], 1))
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        compare(machine, compression, image, lambda tensors, c=compression: hvd.allreduce(tensors[0], compression=c))  # type: ignore[misc]
    for rows in (0, 1, 2, 5):
        part = [values_of(torch.float32, (rows, 3), rows)]
        compare(machine, f"reducescatter of {rows}", part, lambda tensors: hvd.reducescatter(tensors[0]))


def case_moved(machine: Machine) -> None:
    """Broadcast, ragged allgather and alltoall of every dtype that torch has."""
    calls: tuple[Callable[[torch.Tensor], Any], ...] = (
        lambda tensor: hvd.broadcast_(tensor, 1),
        lambda tensor: hvd.allgather(tensor[: 1 + hvd.rank()]),
        hvd.alltoall,
        lambda tensor: hvd.alltoall(tensor, splits=[1 + 2 * hvd.rank(), 3 - 2 * hvd.rank()])[0],
        lambda tensor: hvd.grouped_allgather([tensor, tensor[:1]]),
    )
    for dtype in MOVABLE_DTYPES.values():
        generator = torch.Generator().manual_seed(hvd.rank())
        own = torch.randint(0, 2, (4, 3 * dtype.itemsize), dtype=torch.uint8, generator=generator)
        for number, call in enumerate(calls):
            right, got = _list(call(own.clone().view(dtype))), _list(call(machine.late(own.clone()).view(dtype)))
            for expected, result in zip(right, got, strict=True):
                assert isinstance(result, DeviceTensor)
                assert torch.equal(bits(expected), bits(result)), (dtype, number)
    told = hvd.allgather_object({"moment": on_device(machine, torch.full((3,), hvd.rank() + 0.5))})
    assert [0.5, 1.5] == [data["moment"][0].item() for data in told]


def case_used(machine: Machine) -> None:
    """Rows in a set of one rank, in groups, of numbers of their own in each round, and on another stream that waits."""
    own = values_of(torch.float32, (4, 3), 1)
    lone = hvd.add_process_set([1])
    if hvd.rank() == 1:
        compare(machine, "a set of one rank", [own], lambda tensors: hvd.allgather(tensors[0], process_set=lone))
    hvd.remove_process_set(lone)
    for rows in range(4):
        part = own[: rows * hvd.rank()]
        compare(machine, f"{rows} rows", [part], lambda tensors: hvd.grouped_allgather([tensors[0], tensors[0]]))
    other = machine.make_stream()
    expected = hvd.allgather(own.clone())
    for number in range(10):
        handle = hvd.allgather_async(machine.late(own.clone()), name=f"late.{number}")
        with machine.stream(other):
            assert torch.equal(expected, hvd.synchronize(handle).cpu()), number


def case_streams(machine: Machine) -> None:
    """Submitted on one stream and waited for on another: that one waits, and the memory is kept for its use."""
    other = machine.make_stream()
    for number in range(20):
        source = machine.late(torch.full((1031,), hvd.rank() + float(number)))
        handle = hvd.allreduce_async_(source, op=hvd.Sum)
        machine.noted.clear()
        with machine.stream(other):
            result = hvd.synchronize(handle)
            assert torch.equal(torch.full((1031,), 2.0 * number + 1.0), result.cpu())
        assert {(source.data_ptr(), other)} == set(machine.noted)
        handle = hvd.allreduce_async_(source, op=hvd.Sum)
        while not hvd.poll(handle):
            pass
        plain = source.as_subclass(torch.Tensor)  # in place already, without any wait
        assert torch.equal(torch.full((1031,), 4.0 * number + 2.0), plain)
        hvd.synchronize(handle)


def case_refusals(machine: Machine) -> None:
    """A capture is refused; memory of two kinds under one name is a mismatch; the engine works on."""
    own = on_device(machine, torch.ones(64))
    machine.capture(is_begin=True)
    _refused(hvd.ConfigError, "captur", lambda: hvd.allreduce(own, name="captured"))
    machine.capture(is_begin=False)
    mixed = own if hvd.rank() else torch.ones(64)
    _refused(hvd.MismatchError, "cuda", lambda: hvd.allreduce(mixed, name="two kinds"))
    compare(machine, "afterwards", [torch.ones(64)], lambda tensors: hvd.allreduce(tensors[0]))


def case_failing(machine: Machine) -> None:
    """An error of the driver ends the world, with its text on the rank that has it."""
    hvd.barrier()
    if hvd.rank() == 0:
        machine.fail("cuMemcpyDtoHAsync", 700)
    own = machine.late(torch.ones(64))
    kind: type[Exception] = hvd.DeviceError if hvd.rank() == 0 else hvd.EngineError
    _refused(kind, "700" if hvd.rank() == 0 else "rank 0", lambda: hvd.allreduce(own, name="failing"))
    _refused(hvd.EngineError, "", lambda: hvd.allreduce(torch.ones(2), name="later"))


def _refused(kind: type[Exception], word: str, call: Callable[[], object]) -> None:
    try:
        call()
    except kind as error:
        text = str(error)
    else:
        raise AssertionError(f"no error: {word}")
    assert word in text, text


def main() -> None:
    """Run cases, and require that nothing of the engine's is left on the device."""
    torch.set_num_threads(1)
    load_libraries()
    hvd.init()
    machine = Machine(seed=hvd.rank() + 1)
    run_cases(globals(), sys.argv[1:], machine)
    say(f"by NCCL: {SESSION.require().engine.counters()['nccl_responses'] > 0}")
    hvd.shutdown()
    gc.collect()
    left = machine.close()
    assert not left, left
    say("nothing is left")


main()
