# SPDX-License-Identifier: Apache-2.0
"""Trains with a data loader's worker processes; with a file as argument, rank 1 is killed while its workers live."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

import ringtune.torch as hvd
from tests.integration.plain_rank import say


def loader(rank: int) -> DataLoader[tuple[torch.Tensor, ...]]:
    """Return a loader with two forked workers."""
    data = TensorDataset(torch.randn(64, 8, generator=torch.Generator().manual_seed(rank)))
    return DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="fork", persistent_workers=True)


def main() -> None:
    """Train some epochs; print the survivors' errors."""
    torch.set_num_threads(1)
    hvd.init()
    model = torch.nn.Linear(8, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01))
    moment = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    batches = loader(hvd.rank())
    try:
        for epoch in range(2 if moment is None else 1_000_000):
            for (batch,) in batches:
                optimizer.zero_grad()
                model(batch).square().mean().backward()
                optimizer.step()
            if moment is not None and hvd.rank() == 1 and epoch == 1:
                moment.write_text(f"{time.monotonic()}\n", encoding="utf-8")
                os.kill(os.getpid(), signal.SIGKILL)
    except hvd.PeerLostError:
        assert moment is not None
        say(f"lost after {time.monotonic() - float(moment.read_text(encoding='utf-8')):.2f} s")
        raise SystemExit(3) from None
    hvd.shutdown()
    say("trained")


main()
