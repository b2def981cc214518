# SPDX-License-Identifier: Apache-2.0
"""Facts of this machine's driver and devices, and their speed of copies to and from each kind of host memory."""

import mmap
import os
import time
from typing import Any

import torch

import ringtune.torch as hvd
from tests.gpu.checks import Bench, checks_of, main

COPY_BYTES = 64 << 20
ROUNDS = 10


def check_versions(bench: Bench) -> dict[str, Any]:
    """The engine finds the driver that torch uses."""
    assert hvd.cuda_built() == bench.is_gpu
    if not bench.is_gpu:
        return {"torch": torch.__version__}
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "nccl": nccl, "gpus": torch.cuda.device_count()}


def check_registered_shared_memory(bench: Bench) -> dict[str, Any]:
    """Report whether the driver pins shared memory such as the engine's arena, and the speed of its copies."""
    if not bench.is_gpu:
        return {}
    descriptor = os.memfd_create("shared")
    os.ftruncate(descriptor, COPY_BYTES)
    shared = torch.frombuffer(mmap.mmap(descriptor, COPY_BYTES), dtype=torch.uint8)
    shared.fill_(1)
    result = torch.cuda.cudart().cudaHostRegister(shared.data_ptr(), COPY_BYTES, 1)
    figures: dict[str, Any] = {"registers": int(result) == 0}
    memories = {
        "pinned": torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True),
        "pageable": torch.ones(COPY_BYTES, dtype=torch.uint8),
        "shared": shared,
    }
    device = torch.ones(COPY_BYTES, dtype=torch.uint8, device=bench.device)
    for name, memory in memories.items():
        figures[f"{name} to host GB/s"] = rate(bench, memory, device)
        figures[f"{name} to device GB/s"] = rate(bench, device, memory)
    if figures["registers"]:
        torch.cuda.cudart().cudaHostUnregister(shared.data_ptr())
    return figures


def rate(bench: Bench, target: torch.Tensor, source: torch.Tensor) -> float:
    """Return the gigabytes per second of a copy."""
    target.copy_(source, non_blocking=True)
    bench.finish()
    begin_s = time.perf_counter()
    for _ in range(ROUNDS):
        target.copy_(source, non_blocking=True)
    bench.finish()
    return round(1e-9 * COPY_BYTES * ROUNDS / (time.perf_counter() - begin_s), 1)


if __name__ == "__main__":
    main(checks_of(globals()))
