# SPDX-License-Identifier: Apache-2.0
"""The training loops of `tests/integration/training_loops` with everything on a device, each against one process."""

import importlib
from collections.abc import Callable
from functools import partial

import torch

from tests.gpu.checks import Bench, Check, main

FAMILIES = ("parameters", "gradients", "assigned", "states", "models")


def on_the_device(loop: Callable[[], None], bench: Bench) -> None:
    """Run a loop with models and data on the device."""
    torch.set_default_dtype(torch.float64)
    if bench.is_gpu:
        torch.set_default_device(bench.device)
    try:
        loop()
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


def checks() -> dict[str, Check]:
    """Return every loop of every family, by its name."""
    found: dict[str, Check] = {}
    for family in FAMILIES:
        module = vars(importlib.import_module(f"tests.integration.training_loops.{family}"))
        loops = {name.removeprefix("loop_"): loop for name, loop in module.items() if name.startswith("loop_")}
        found |= {f"{family}.{name}": partial(on_the_device, loop) for name, loop in loops.items()}
    return found


if __name__ == "__main__":
    main(checks())
