# SPDX-License-Identifier: Apache-2.0
"""Refusals: capture, other devices and mismatches end in a sentence, and the engine works on."""

import threading
from collections.abc import Callable

import torch

import ringtune.torch as hvd
from tests.gpu.checks import Bench, checks_of, main

CAPTURES = 10
CAPTURE_OPERATIONS = 100


def refused(kind: type[Exception], call: Callable[[], object], *words: str) -> str:
    """Make a call that must raise an error of a kind with some words; return its text."""
    try:
        call()
    except kind as error:
        text = str(error)
    else:
        raise AssertionError(f"no error with {words}")
    assert all(word in text for word in words), text
    return text


def works(bench: Bench) -> None:
    """Require that the engine reduces as before."""
    result = hvd.allreduce(torch.ones(1031, device=bench.device), op=hvd.Sum)
    assert torch.equal(torch.full((1031,), float(hvd.size())), result.cpu())


def check_other_devices(bench: Bench) -> None:
    """Tensors without values, and of devices that are neither CPU nor CUDA."""
    refused(hvd.ConfigError, lambda: hvd.allreduce(torch.zeros(2, device="meta")), "CPU memory", "CUDA", "meta")
    works(bench)


def check_cpu_against_device(bench: Bench) -> dict[str, str]:
    """One name with a tensor in CPU memory on one rank and on the device on the others is a mismatch on all."""
    if not bench.is_gpu:
        return {}
    own = torch.ones(64, device=bench.device if hvd.rank() else bench.reference)
    text = refused(hvd.MismatchError, lambda: hvd.allreduce(own, name="two kinds"), "two kinds", "cuda")
    works(bench)
    return {"says": text}


def check_shape_mismatch(bench: Bench) -> None:
    """Another shape on one rank fails that tensor alone, and leaves it as it is."""
    own = torch.full((64 + hvd.rank(),), 3.0, device=bench.device)
    refused(hvd.MismatchError, lambda: hvd.allreduce_(own, name="two shapes"), "two shapes")
    assert torch.equal(torch.full((64 + hvd.rank(),), 3.0), own.cpu())
    works(bench)


def check_capture(bench: Bench) -> dict[str, str]:
    """A stream under capture is refused; operations of another thread do not disturb the capture, nor it them."""
    if not bench.is_gpu:
        return {}
    own, scaled = torch.ones(1031, device=bench.device), torch.zeros(1031, device=bench.device)
    beside = [torch.ones(1031 * (1 + number % 7), device=bench.device) for number in range(CAPTURE_OPERATIONS)]
    texts: list[str] = []
    problems: list[str] = []

    def reduce_beside() -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream(bench.device)):
                for number, tensor in enumerate(beside):
                    hvd.allreduce_(tensor, name=f"beside.{number}", op=hvd.Sum)
        except Exception as error:  # noqa: BLE001  (to be raised in the main thread)
            problems.append(repr(error))

    works(bench)
    torch.mul(own, 2.0, out=scaled)  # loads the kernel before the capture
    bench.finish()
    thread = threading.Thread(target=reduce_beside)
    thread.start()
    for _ in range(CAPTURES):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.mul(own, 2.0, out=scaled)
            texts.append(refused(hvd.ConfigError, lambda: hvd.allreduce_async_(own, name="captured"), "captur"))
        scaled.zero_()
        graph.replay()
        assert torch.equal(torch.full((1031,), 2.0), scaled.cpu())
    thread.join()
    bench.finish()
    assert not problems, problems
    assert all(bool((tensor == hvd.size()).all()) for tensor in beside)
    works(bench)
    return {"says": texts[0]}


def check_only_the_own_device(bench: Bench) -> dict[str, int]:
    """No context is made on devices that hold no tensor of this rank; one GPU cannot show more than its own."""
    works(bench)
    return {"devices": torch.cuda.device_count() if bench.is_gpu else 0}


if __name__ == "__main__":
    main(checks_of(globals()))
