# SPDX-License-Identifier: Apache-2.0
"""Tune the buckets of torch's own DistributedDataParallel, whose training loop stays as it is.

Run it under torchrun; `AUTOTUNE=0` trains the same without the tuner:

    torchrun --nproc-per-node 2 examples/ddp_autotune.py
    AUTOTUNE_LOG=tuning.jsonl torchrun --nproc-per-node 2 examples/ddp_autotune.py --width 1024 --seconds 600

Gradients are reduced by Gloo on CPUs and by NCCL on GPUs. Where a config was adopted, rank 0 prints at the end the
argument to write into the call of `DistributedDataParallel`.
"""

import argparse
import gc
import os
import time

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from ringtune.ddp import DdpTuner, autotune


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description="Tune the buckets of DistributedDataParallel.")
    parser.add_argument("--width", type=int, default=256, help="features of a layer")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16, help="examples per rank and step")
    parser.add_argument("--seconds", type=float, default=120.0, help="train until the tuner has finished, at most this")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def make_model(width: int, layers: int, device: torch.device) -> DistributedDataParallel:
    """Return a perceptron under DDP: (batch, width) to (batch, width)."""
    blocks = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)]
    return DistributedDataParallel(nn.Sequential(*blocks).to(device))


def agree(claim: bool, device: torch.device) -> bool:
    """Return rank 0's claim on every rank: their clocks differ."""
    word = torch.tensor([int(claim)], device=device)
    distributed.broadcast(word, 0)
    return bool(word.item())


def train(model: DistributedDataParallel, tuner: DdpTuner, arguments: argparse.Namespace) -> int:
    """Learn to reproduce random rows; return the number of steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    device = model.device
    end_s, steps, is_over = time.monotonic() + arguments.seconds, 0, False
    while not is_over:
        inputs = torch.randn(arguments.batch_size, arguments.width, device=device)
        optimizer.zero_grad()
        loss: Tensor = nn.functional.mse_loss(model(inputs), inputs)
        loss.backward()
        optimizer.step()
        steps += 1
        is_over = steps % 50 == 0 and agree(tuner.is_finished or time.monotonic() > end_s, device)
    return steps


def run(arguments: argparse.Namespace, device: torch.device) -> None:
    """Train with the tuner on this rank; rank 0 reports."""
    model = make_model(arguments.width, arguments.layers, device)
    with autotune(model) as tuner:
        steps = train(model, tuner, arguments)
    if tuner.result is not None:
        print(f"{steps} steps; {tuner.result.verdict}")
        if tuner.result.adopted:
            print(
                f"for the next job: DistributedDataParallel(..., bucket_cap_mb={tuner.result.config['bucket_cap_mb']})"
            )


def main() -> None:
    """Join the job, train, and leave it."""
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    has_gpu = torch.cuda.is_available()
    distributed.init_process_group("nccl" if has_gpu else "gloo")
    run(arguments, torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if has_gpu else torch.device("cpu"))
    gc.collect()  # a model that outlives its Gloo group can abort the interpreter's exit
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
