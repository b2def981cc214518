# SPDX-License-Identifier: Apache-2.0
"""One rank's side of the checks: runs them one after the other, and writes down how each ended.

A check that fails on one rank must not stop the others: all ranks then leave the world and join it anew.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import ringtune.torch as hvd

Check = Callable[["Bench"], Any]
"""Raises where something is wrong; returns figures for the table by name, or None."""


@dataclass(frozen=True)
class Bench:
    """The surroundings of a check.

    Attributes:
        device: The device whose tensors are checked.
        folder: Folder where the ranks of this program may leave files for each other.
    """

    device: torch.device
    folder: Path
    has_autograd = True

    @property
    def reference(self) -> torch.device:
        """The device whose results are right."""
        return torch.device("cpu")

    @property
    def is_gpu(self) -> bool:
        """Return whether a GPU is checked: without one, the programs compare the CPU with itself."""
        return self.device.type == "cuda"

    def late(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy on the device; memory that results are likely to get holds bytes that no result has."""
        copy = tensor.to(self.device, copy=True)
        if self.is_gpu:
            torch.full((max(1, tensor.nbytes),), 0x5A, dtype=torch.uint8, device=self.device)
        return copy

    def has(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor lies on the device."""
        return tensor.device == self.device

    def finish(self) -> None:
        """Wait until everything that was enqueued is done."""
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def sleep(self, milliseconds: float) -> None:
        """Enqueue a kernel that only waits: later work of the current stream is late."""
        if self.is_gpu:
            torch.cuda._sleep(int(milliseconds * 1.5e6))  # cycles of a GPU of 1.5 GHz or more


def checks_of(members: Mapping[str, Any]) -> dict[str, Check]:
    """Return a program's `check_` functions by name, from its globals."""
    return {name.removeprefix("check_"): check for name, check in members.items() if name.startswith("check_")}


def main(checks: Mapping[str, Check]) -> None:
    """Run a program's checks on this rank. Arguments: device, file for the outcomes, check names."""
    kind, path, *chosen = sys.argv[1:]
    torch.set_num_threads(1)
    hvd.init()
    share_the_gpu()
    bench = Bench(_own_device(kind), Path(path).parent)
    outcomes = Path(f"{path}.{hvd.rank()}.jsonl")
    for name in chosen or checks:
        outcome = _outcome(name, checks[name], bench)
        if not (outcome["passed"] and _have_all_passed(outcome)):
            _join_anew()
        with outcomes.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(outcome)}\n")
    hvd.shutdown()


def share_the_gpu() -> None:
    """Let NCCL take this rank for the only one of its host: only so may ranks share a GPU."""
    if os.environ.get("RINGTUNE_GPU_OPERATIONS") == "nccl":
        os.environ["NCCL_HOSTID"] = f"rank-{hvd.rank()}"


def _have_all_passed(outcome: dict[str, Any]) -> bool:
    """Return whether the other ranks come here too: one that failed leaves the world instead."""
    try:
        hvd.barrier()
    except hvd.RingtuneError as error:
        outcome["note"] = f"another rank failed: {error}"
        return False
    return True


def _own_device(kind: str) -> torch.device:
    if kind == "cpu":
        return torch.device("cpu")
    device = torch.device(kind, hvd.local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _outcome(name: str, check: Check, bench: Bench) -> dict[str, Any]:
    begin_s = time.monotonic()
    outcome: dict[str, Any] = {"check": name, "passed": True}
    try:
        figures = check(bench)
        bench.finish()
        outcome["figures"] = figures or {}
    except Exception:  # noqa: BLE001  (whatever it is, the other checks must run)
        outcome["passed"] = False
        outcome["error"] = traceback.format_exc()
        sys.stderr.write(f"{name}\n{outcome['error']}\n")
    outcome["seconds"] = round(time.monotonic() - begin_s, 2)
    return outcome


def _join_anew() -> None:
    """Leave a world whose ranks do not agree any more on the next call, and join it again."""
    hvd.shutdown()
    hvd.init()
