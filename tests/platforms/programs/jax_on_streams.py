# SPDX-License-Identifier: Apache-2.0
"""Runs another program of this folder whose compiled collectives go the way that they go on CUDA.

Arguments: the program, without its ending, and its own. XLA runs on the CPU; the GPU is the stand-in's, as are its
streams, and NCCL where STANDIN_NCCL names it. The libraries are those of STANDIN_DRIVER and XLA_STREAMS.
"""

import ctypes
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import jax

from ringtune.jax import calls
from ringtune.session.session import SESSION
from ringtune.world.world import World
from tests.integration.plain_rank import say

_register = jax.ffi.register_ffi_target


def register_streams(name: str, function: Any, platform: str = "cpu", **options: Any) -> None:
    """Register the stand-in's way in place of the CPU's."""
    if platform == "cpu" and name == calls.COLLECTIVE:
        function = jax.ffi.pycapsule(ctypes.CDLL(os.environ["XLA_STREAMS"]).collective_on_standin_stream)
    _register(name, function, platform=platform, **options)


def main() -> None:
    """Run the program, and say whether NCCL carried some of its data."""
    for variable in ("STANDIN_DRIVER", "STANDIN_NCCL"):
        if variable in os.environ:
            ctypes.CDLL(os.environ[variable])
    jax.ffi.register_ffi_target = register_streams
    calls.platform_of_backend = lambda: "CUDA"
    worlds: list[World] = []
    SESSION.observe(lambda world: worlds.append(world) if world is not None else None)
    program = Path(__file__).with_name(f"{sys.argv[1]}.py")
    sys.argv[:] = [str(program), *sys.argv[2:]]
    runpy.run_path(str(program), run_name="__main__")
    say(f"by NCCL: {any(world.engine.counters()['nccl_responses'] for world in worlds)}")


main()
