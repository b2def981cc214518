# SPDX-License-Identifier: Apache-2.0
"""Allreduces a tensor of 80 MiB in place and compares every element. Where memory is short, an error and no signal."""

import numpy as np

from tests.integration.plain_rank import SUM, join, say

ELEMENTS = 20 << 20
FLOAT32 = 6


def main() -> None:
    """Sum small integers, which are exact."""
    world = join()
    pattern = np.arange(ELEMENTS, dtype=np.float32) % 1021
    values = pattern * (world.rank + 1)
    handle = world.engine.allreduce_async(
        "large", values.ctypes.data, values.ctypes.data, values.shape, FLOAT32, SUM, is_gradient=False
    )
    world.engine.wait(handle)
    pattern *= world.size * (world.size + 1) / 2
    assert np.array_equal(pattern, values)
    say(f"rank {world.rank}: all right")
    world.shutdown()


main()
