# SPDX-License-Identifier: Apache-2.0
"""Calls for JAX's compiled functions: `python -m ringtune.jax_op` builds their library."""

import ctypes
import importlib
from pathlib import Path
from typing import Any

from ringtune.graph_operations.graph_library import GraphLibrary
from ringtune.graph_operations.graph_library_command import build_library

HOW_TO_BUILD = "build it with `python -m ringtune.jax_op` in the job's environment"
CALLS = (
    "ringtune_jax_collective",
    "ringtune_jax_mark_step",
    "ringtune_jax_nothing",
)  # names of XLA's calls
_ON_CPU = {name: name for name in CALLS}
HANDLERS = {"cpu": _ON_CPU, "CUDA": {**_ON_CPU, "ringtune_jax_collective": "ringtune_jax_collective_on_stream"}}
"""Functions of the file by XLA's platform and the name of the call."""

_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-w")  # the warnings are about XLA's headers


def jax_library(jax: Any) -> GraphLibrary:
    """Return the library for a version of JAX.

    Args:
        jax: The module `jax`.
    """
    ffi = importlib.import_module("jax.ffi")
    return GraphLibrary(
        source="jax_op.cpp",
        framework="jax",
        version=jax.__version__,
        compile_flags=[*_FLAGS, f"-I{ffi.include_dir()}"],
        link_flags=[],
        load=_load,
    )


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.ringtune_jax_open.argtypes = [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_char_p]
    library.ringtune_jax_open.restype = None
    for name in {name for handlers in HANDLERS.values() for name in handlers.values()}:
        getattr(library, name)  # raises where the file is older than this module
    return library


def main() -> int:
    """Build the library for the JAX of this environment."""
    return build_library("ringtune.jax_op", "JAX", lambda: jax_library(importlib.import_module("jax")))
