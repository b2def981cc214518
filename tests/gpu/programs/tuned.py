# SPDX-License-Identifier: Apache-2.0
"""Trains a fixed number of steps and writes down the weights' digest. Arguments: device, file for the outcome, steps.

Run with the tuner and without it, the digests must be equal: tuning changes speed and not bits.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import torch

import ringtune.torch as hvd

LAYERS = 12


def main() -> None:
    """Train, and say whether the tuner has finished."""
    kind, path, steps = sys.argv[1:]
    torch.set_num_threads(1)
    hvd.init()
    device, rank = torch.device(kind), hvd.rank()
    torch.manual_seed(5)
    layers = [torch.nn.Linear(96, 96) for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(96, 4)).to(device)
    inner = torch.optim.SGD(model.parameters(), lr=0.001)
    optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters())
    batches = [
        torch.randn(16, 96, generator=torch.Generator().manual_seed(10 * number + rank)).to(device)
        for number in range(8)
    ]
    begin_s = time.monotonic()
    for step in range(int(steps)):
        optimizer.zero_grad()
        model(batches[step % 8]).square().mean().backward()
        optimizer.step()
    seconds = time.monotonic() - begin_s
    weights = b"".join(parameter.detach().cpu().numpy().tobytes() for parameter in model.parameters())
    is_tuned = os.environ.get("AUTOTUNE") == "1"
    finished = hvd.tuning_finished()
    figures = {"digest": hashlib.sha256(weights).hexdigest()[:16], "ms per step": round(1e3 * seconds / int(steps), 3)}
    hvd.shutdown()
    outcome = {"check": "tuned" if is_tuned else "untuned", "passed": finished, "figures": figures}
    Path(f"{path}.{rank}.jsonl").write_text(f"{json.dumps(outcome)}\n", encoding="utf-8")


main()
