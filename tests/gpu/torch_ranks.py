# SPDX-License-Identifier: Apache-2.0
"""Ranks of torch.distributed that share this machine's one GPU, each a process with a deadline."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 100.0
MARK = "figures: "
"""Beginning of the line in which a program prints its figures."""
OWN = {"AUTOTUNE_CACHE": "0", "AUTOTUNE_LOCK": "0"}
SHARED = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "GLOO_SOCKET_IFNAME": "lo", **OWN}
DUPLICATE = "Duplicate GPU detected"
"""NCCL's words for two ranks of one communicator on one GPU."""


def rank_environment(rank: int) -> dict[str, str]:
    """Return the variables that let a rank share its GPU: to NCCL each is a host of its own.

    NCCL does not support that. It serves to have two ranks on a machine with one GPU.
    """
    return {**SHARED, "NCCL_HOSTID": f"host-{rank}"}


def run_ranks(
    program: str, arguments: Sequence[str], folder: Path, *, ranks: int = 2, environ: Mapping[str, str] | None = None
) -> list[str]:
    """Run a program of this folder on some ranks, and return the output of each.

    Args:
        program: Module below `tests.gpu.programs`; its arguments are rank, number of ranks, and a file to meet at.
        arguments: After those.
        folder: For the ranks' files.
        ranks: Number of ranks.
        environ: Added to their environment.

    Raises:
        AssertionError: If a rank fails or does not end in time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / f"store-{time.monotonic_ns()}"
    processes = []
    for rank in range(ranks):
        command = [sys.executable, "-m", f"tests.gpu.programs.{program}", str(rank), str(ranks), str(store), *arguments]
        with (folder / f"{program}.{rank}.txt").open("wb") as output:
            processes.append(
                subprocess.Popen(
                    command,
                    cwd=REPOSITORY,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **rank_environment(rank), **(environ or {})},
                    start_new_session=True,
                )
            )
    end_s = time.monotonic() + DEADLINE_S
    codes = [_wait(process, end_s) for process in processes]
    texts = [(folder / f"{program}.{rank}.txt").read_text(errors="replace") for rank in range(ranks)]
    outputs = "\n".join(f"--- rank {rank}: exit code {codes[rank]}\n{text[-4000:]}" for rank, text in enumerate(texts))
    assert [0] * ranks == codes, outputs
    return texts


def figures_of(text: str) -> dict[str, Any]:
    """Return a rank's findings."""
    (line,) = [line for line in text.splitlines() if line.startswith(MARK)]
    figures: dict[str, Any] = json.loads(line.removeprefix(MARK))
    return figures


def say_figures(figures: Mapping[str, Any]) -> None:
    """Print a rank's findings, in a program."""
    sys.stdout.write(f"\n{MARK}{json.dumps(dict(figures))}\n")
    sys.stdout.flush()


def _wait(process: subprocess.Popen[bytes], end_s: float) -> int | str:
    try:
        return process.wait(max(end_s - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "killed at its deadline"
