# SPDX-License-Identifier: Apache-2.0
"""Functions for `ringtune.run`, and a program that runs one of its own: `functions.py OUTPUT`, or with `forever`."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import ringtune
import ringtune.arrays as rt
from ringtune.errors import PeerLostError

TOLD = "began"


def sums(row: Any, factor: float = 1.0) -> dict[str, Any]:
    """Return this rank's place and the sum of all ranks' rows."""
    rt.init()
    total = rt.allreduce(row * (rt.rank() + 1) * factor, op=rt.Sum)
    return {"place": (rt.rank(), rt.size()), "total": total, "seed": os.environ.get("AUTOTUNE_SEED")}


def fails_on_rank_1() -> None:
    """Raise on one rank while the other waits for it."""
    rt.init()
    if rt.rank() == 1:
        raise ValueError("no luck")
    rt.allreduce(np.ones(2), name="never")


def is_killed_on_rank_1() -> None:
    """End one rank without a word."""
    rt.init()
    if rt.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    rt.allreduce(np.ones(2), name="never")


def survives_a_loss() -> dict[str, Any]:
    """Lose a worker of three and go on without it; return this rank's place at the end."""
    rt.init()
    try:
        if os.environ["RINGTUNE_WORKER_ID"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            rt.allreduce(np.ones(2), name="step")
    except PeerLostError:
        rt.shutdown()
        rt.init()
    total = rt.allreduce(np.ones(1), op=rt.Sum)
    return {"place": (rt.rank(), rt.size()), "total": float(total[0])}


def returns_what_cannot_be_sent() -> object:
    """Return an object of no known type."""
    return object()


def leaves() -> None:
    """Exit instead of returning."""
    sys.exit(0)


def sleeps(note: str) -> None:
    """Say that it has begun, and do not come back."""
    rt.init()
    Path(f"{note}.{rt.rank()}").write_text(f"{os.getpid()}\n", encoding="utf-8")
    time.sleep(3600)


def ends_its_caller(pid: int) -> None:
    """Ask the caller to end."""
    os.kill(pid, signal.SIGTERM)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if sys.argv[2:] == ["forever"]:
        ringtune.run(sleeps, (str(folder / TOLD),), np=2)
    results = ringtune.run(sums, (np.arange(3.0),), {"factor": 2.0}, np=2)
    (folder / "result").write_text(repr([result["total"].tolist() for result in results]), encoding="utf-8")
