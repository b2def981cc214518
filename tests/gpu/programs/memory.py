# SPDX-License-Identifier: Apache-2.0
"""A world that ends leaves no memory on the device. To be run alone: other processes take memory of the device, too."""

import torch

import ringtune.torch as hvd
from tests.gpu.checks import Bench, checks_of, main

WORLDS = 3
LEFT_BYTES = 32 << 20


def check_memory_comes_back(bench: Bench) -> dict[str, int]:
    """After the last `shutdown()` the device has as much free memory as after the first, whose context stays."""
    free = [_free_after_a_world(bench) for _ in range(WORLDS)]
    hvd.init()
    lost = free[0] - free[-1]
    assert lost < LEFT_BYTES, f"{lost} bytes of the device are lost: free were {free}"
    return {"lost bytes": lost}


def _free_after_a_world(bench: Bench) -> int:
    """Return the device's free memory once a world has ended and torch keeps none that it does not use."""
    hvd.shutdown()
    hvd.init()
    hvd.allreduce_(torch.ones(1 << 24, device=bench.device), op=hvd.Sum)
    hvd.allgather(torch.ones(1 << 20, device=bench.device))
    bench.finish()
    hvd.shutdown()
    if not bench.is_gpu:
        return 0
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info(bench.device)[0])


if __name__ == "__main__":
    main(checks_of(globals()))
