# SPDX-License-Identifier: Apache-2.0
"""One rank that trains under DDP, tuned or not. Arguments: rank, ranks, store, device, backend, steps, log or "-".

With the tuner and without it the digests must be equal: on two ranks other buckets change no bit.
"""

import hashlib
import sys
import time
from itertools import pairwise
from statistics import median

import torch
from torch import distributed as dist
from torch.distributed import FileStore  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from ringtune.ddp import DdpTuner, autotune
from ringtune.ddp.model import DdpModel
from tests.gpu.torch_ranks import say_figures

LAYERS, WIDTH, BATCHES = 8, 256, 8
SPARE_STEPS = 200
"""Steps at the end that the tuner's budget leaves out: the decision reaches all ranks within them."""


def make_model(device: torch.device) -> DistributedDataParallel:
    """Return a model of some buckets, equal on all ranks and in every call."""
    torch.manual_seed(5)
    layers = [part for _ in range(LAYERS) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
    return DistributedDataParallel(torch.nn.Sequential(*layers).to(device), bucket_cap_mb=1)


def train(model: DistributedDataParallel, device: torch.device, steps: int) -> tuple[list[float], list[float]]:
    """Train; return when each step began by the host's clock and by the device's, milliseconds."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = [
        torch.randn(16, WIDTH, generator=torch.Generator().manual_seed(10 * number + dist.get_rank())).to(device)
        for number in range(BATCHES)
    ]
    host_ms, events = [], []
    for step in range(steps):
        host_ms.append(time.monotonic() * 1e3)
        if device.type == "cuda":
            events.append(torch.cuda.Event(enable_timing=True))
            events[-1].record()
        optimizer.zero_grad()
        model(batches[step % BATCHES]).square().mean().backward()
        optimizer.step()
    if not events:
        return host_ms, host_ms
    torch.cuda.synchronize(device)
    return host_ms, [events[0].elapsed_time(event) for event in events]


def main() -> None:
    """Train, and print the result."""
    rank, ranks, store, kind, backend, steps, log = sys.argv[1:]
    device = torch.device(kind, 0) if kind == "cuda" else torch.device(kind)
    torch.set_num_threads(1)
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, store=FileStore(store, int(ranks)), rank=int(rank), world_size=int(ranks))
    model = make_model(device)
    budget = int(steps) - SPARE_STEPS
    tuner = autotune(model, log=log, max_steps=budget, seed=1) if log != "-" else DdpTuner(DdpModel(model), None, None)
    with tuner:
        host_ms, device_ms = train(model, device, int(steps))
        is_finished, result = tuner.is_finished, tuner.result
    weights = b"".join(parameter.detach().cpu().numpy().tobytes() for parameter in model.parameters())
    say_figures(
        {
            "digest": hashlib.sha256(weights).hexdigest(),
            "is_finished": is_finished,
            "verdict": None if result is None else result.verdict,
            "host_ms": median(later - earlier for earlier, later in pairwise(host_ms)),
            "device_ms": sorted(later - earlier for earlier, later in pairwise(device_ms)),
            "gpu": torch.cuda.get_device_name(device) if kind == "cuda" else None,
        }
    )
    dist.destroy_process_group()


main()
