# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors on the stand-in for the driver: every operation and dtype, late, against the same in CPU memory."""

import gc
import sys
from collections.abc import Callable

import torch

import ringtune.torch as hvd
from ringtune.session.session import SESSION
from tests.collectives.same_bits import CASES, compare, values_of
from tests.integration.plain_rank import run_cases, say
from tests.integration.standin_device import Machine, load_libraries, on_device


def case_used(machine: Machine) -> None:
    """Rows in a set of one rank, in groups, of numbers of their own in each round, and on another stream that waits."""
    own = values_of(torch.float32, (4, 3), 1, is_finite=True)
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


def case_objects(machine: Machine) -> None:
    """Tensors in plain data arrive with their values."""
    gathered = hvd.allgather_object({"moment": on_device(machine, torch.full((3,), hvd.rank() + 0.5))})
    assert [0.5, 1.5] == [data["moment"][0].item() for data in gathered]


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
    """Run cases, and require that no object of the engine's is left on the device."""
    torch.set_num_threads(1)
    load_libraries()
    hvd.init()
    machine = Machine(seed=hvd.rank() + 1)
    shared = {f"case_{case.__name__}": case for case in CASES}
    run_cases({**shared, **globals()}, sys.argv[1:], machine)
    say(f"by NCCL: {SESSION.require().engine.counters()['nccl_responses'] > 0}")
    hvd.shutdown()
    gc.collect()
    left = machine.close()
    assert not left, left
    say("nothing is left")


main()
