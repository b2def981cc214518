# SPDX-License-Identifier: Apache-2.0
"""A rank is killed in the middle of a collective on a device. Arguments: device, file for the outcome, when.

When is `copied`, while the others reduce with it, or `late`, while its own gradient is not ready. The survivor says how
long after the kill its error came, and how much of the device's memory came back.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

import ringtune.torch as hvd
from tests.gpu.checks import share_the_gpu

ELEMENTS = 1 << 24
LATE_MS = 5000.0
LIMIT_S = 2.0


def main() -> None:
    """Reduce until rank 1 is dead."""
    kind, path, when = sys.argv[1:]
    device, killed_at = torch.device(kind), Path(f"{path}.killed")
    torch.ones(1, device=device).add_(1)
    hvd.init()
    share_the_gpu()
    hvd.allreduce(torch.ones(1, device=device))  # what stays on the device for good, such as kernels
    hvd.shutdown()
    free = _free_bytes(device)
    hvd.init()
    memory = torch.ones(ELEMENTS, device=device)
    for _ in range(3):
        hvd.allreduce_(memory)
    if hvd.rank() == 1:
        if when == "late" and kind == "cuda":
            torch.cuda._sleep(int(LATE_MS * 1.5e6))
        hvd.allreduce_async_(memory, name="the last")
        killed_at.write_text(repr(time.monotonic()), encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)
    text, seconds = _failure(memory, killed_at)
    hvd.shutdown()
    del memory
    lost = free - _free_bytes(device)
    outcome: dict[str, Any] = {"check": when, "passed": text.startswith("PeerLostError") and lost < 32 << 20}
    outcome["is_below"] = seconds > LIMIT_S
    outcome["figures"] = {"seconds": round(seconds, 3), "lost bytes": lost, "says": text}
    Path(f"{path}.0.jsonl").write_text(f"{json.dumps(outcome)}\n", encoding="utf-8")


def _failure(memory: torch.Tensor, killed_at: Path) -> tuple[str, float]:
    """Reduce until it fails; return the error and how long after the kill it came."""
    try:
        hvd.allreduce_(memory, name="the last")
        while True:
            hvd.allreduce_(memory)
    except hvd.EngineError as error:
        seconds = time.monotonic() - float(killed_at.read_text(encoding="utf-8"))
        return f"{type(error).__name__}: {error}", seconds


def _free_bytes(device: torch.device) -> int:
    """Return the free memory of the device; the dead rank's comes back when the kernel has cleaned up behind it."""
    if device.type == "cpu":
        return 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info(device)[0])


main()
