# SPDX-License-Identifier: Apache-2.0
"""Process groups of `torch.distributed`: `python -m ringtune.torch_backend` builds their compiled form."""

import importlib
import importlib.util
import sys
import sysconfig
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any

from ringtune.graph_operations.graph_library import GraphLibrary
from ringtune.graph_operations.graph_library_command import build_library

HOW_TO_BUILD = "build it with `python -m ringtune.torch_backend` in the job's environment"
_MODULE = "ringtune_torch_backend"
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-w")  # the warnings are about torch's headers


def torch_library(torch: Any) -> GraphLibrary:
    """Return the library for a version of torch and of Python.

    Args:
        torch: The module `torch`.
    """
    folder = Path(torch.__file__).parent
    headers = folder / "include", folder / "include/torch/csrc/api/include", sysconfig.get_paths()["include"]
    return GraphLibrary(
        source="torch_backend/torch_backend.cpp",
        framework="torch",
        version=f"{torch.__version__}-{sys.implementation.cache_tag}",
        compile_flags=[*_FLAGS, *(f"-isystem{header}" for header in headers)],
        link_flags=[f"-L{folder / 'lib'}", "-ltorch_python", "-ltorch", "-ltorch_cpu", "-lc10"],
        load=_load,
    )


def _load(path: Path) -> Any:
    loader = ExtensionFileLoader(_MODULE, str(path))
    spec = importlib.util.spec_from_loader(_MODULE, loader)
    if spec is None:
        raise AssertionError("a loader makes a specification")
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise OSError(str(error)) from error
    return module


def main() -> int:
    """Build the compiled form for the torch of this environment."""
    return build_library("ringtune.torch_backend", "PyTorch", lambda: torch_library(importlib.import_module("torch")))
