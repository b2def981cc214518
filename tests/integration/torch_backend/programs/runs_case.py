# SPDX-License-Identifier: Apache-2.0
"""Runs cases of a process group, or programs of users, and prints a digest of each result.

Usage: runs_case.py BACKEND MEETING-FILE FORM MODULE NAME…
"""

import hashlib
import os
import sys
from importlib import import_module
from types import ModuleType

import torch
from torch import distributed as dist

from tests.integration.plain_rank import say
from tests.integration.torch_backend.forms import check_form, choose_form


def digest(tensors: list[torch.Tensor]) -> str:
    """Return a digest of the bits of tensors."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(
            tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        )
    return found.hexdigest()[:16]


def cases(module: ModuleType) -> dict[str, object]:
    """Return the cases of a module by name."""
    return {**module.CASES, **module.OWN_CASES}


def main() -> None:
    """Run the cases."""
    backend, meeting, form, module, *names = sys.argv[1:]
    torch.set_num_threads(1)
    rank, size = int(os.environ["RINGTUNE_RANK"]), int(os.environ["RINGTUNE_WORLD_SIZE"])
    choose_form(form, rank)
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=size)
    if backend == "ringtune":
        check_form(form, rank)
    for name in names:
        case = cases(import_module(module))[name]
        assert callable(case)
        say(f"{name} on {rank}: {digest(case())}")
    if dist.is_initialized():
        dist.destroy_process_group()


main()
