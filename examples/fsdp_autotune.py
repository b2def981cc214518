# SPDX-License-Identifier: Apache-2.0
"""Tune a perceptron under FSDP2, whose training loop stays as it is.

Run it under torchrun; `AUTOTUNE=0` trains the same without the tuner:

    torchrun --nproc-per-node 2 examples/fsdp_autotune.py
    AUTOTUNE_LOG=tuning.jsonl torchrun --nproc-per-node 2 examples/fsdp_autotune.py --width 512 --limit-gib 2

Gloo carries the parameters on CPUs, NCCL on GPUs. Where a config was adopted, rank 0 says at the end how to keep it.
"""

import argparse
import gc
import os

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ringtune.fsdp import FsdpTuner, autotune

GIB = 2**30


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description="Tune a model under FSDP2.")
    parser.add_argument("--width", type=int, default=256, help="features of a layer")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16, help="examples per rank and step")
    parser.add_argument("--most-steps", type=int, default=4000, help="train until the tuner has finished, at most this")
    parser.add_argument("--limit-gib", type=float, help="limit of each rank's memory; by default what the device has")
    return parser.parse_args()


def make_model(width: int, layers: int, device: torch.device) -> nn.Sequential:
    """Return a perceptron with one group of parameters for each layer: (batch, width) to (batch, width)."""
    mesh = init_device_mesh(device.type, (distributed.get_world_size(),))
    model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers))).to(device)
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def train(model: nn.Module, tuner: FsdpTuner, arguments: argparse.Namespace, device: torch.device) -> int:
    """Learn to reproduce random rows; return the number of steps, which is equal on all ranks."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    steps = 0
    while steps < arguments.most_steps and not (steps and tuner.is_finished):
        inputs = torch.randn(arguments.batch_size, arguments.width, device=device)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), inputs).backward()
        optimizer.step()
        steps += 1
    return steps


def main() -> None:
    """Join the job, train, and leave it."""
    arguments = parse_arguments()
    torch.manual_seed(0)
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if has_gpu else "gloo")
    model = make_model(arguments.width, arguments.layers, device)
    limit = None if arguments.limit_gib is None else int(arguments.limit_gib * GIB)
    with autotune(model, memory_limit_bytes=limit) as tuner:
        steps = train(model, tuner, arguments, device)
    if tuner.result is not None:
        print(f"{steps} steps; {tuner.result.verdict}")
        if tuner.result.adopted:
            print(f"for the next job: ringtune.fsdp.apply(model, **{dict(tuner.result.config)})")
    del model
    gc.collect()  # a model that outlives its Gloo group can abort the interpreter's exit
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
