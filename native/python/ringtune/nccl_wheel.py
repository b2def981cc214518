# SPDX-License-Identifier: Apache-2.0
"""NCCL as NVIDIA's wheels bring it, for processes that have not loaded it through torch."""

import importlib.util
from pathlib import Path

LIBRARY = Path("nccl", "lib", "libnccl.so.2")


def find_nccl() -> str:
    """Return the path of the NCCL that is installed beside ringtune; empty where there is none."""
    spec = importlib.util.find_spec("nvidia")
    folders = () if spec is None or spec.submodule_search_locations is None else spec.submodule_search_locations
    return next((str(file) for folder in folders if (file := Path(folder) / LIBRARY).is_file()), "")
