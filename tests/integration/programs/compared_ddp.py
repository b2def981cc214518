# SPDX-License-Identifier: Apache-2.0
"""A script for DDP as users write them: own process group, accumulation by no_sync, two optimizers, a checkpoint.

Arguments: the folder for each rank's result; the number of steps; an option: `hook` registers ringtune's communication
hook, `foreign_hook` one of PyTorch's, `half` wraps over a part of the ranks, `by_hand` does not wrap and averages
gradients itself.
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("SET_BEFORE_TORCH", "torch" if "torch" in sys.modules else "nothing")

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel as Ddp


def wrapped(network: torch.nn.Module, mode: str) -> torch.nn.Module:
    """Return the model as the mode says."""
    if mode == "by_hand":
        return network
    group = None if mode != "half" else dist.new_group([dist.get_rank()], use_local_synchronization=True)
    model = Ddp(network, process_group=group)
    if mode == "hook":
        import ringtune.torch as hvd

        hvd.init()
        model.register_comm_hook(hvd.DdpState(), hvd.ddp_hook)
    if mode == "foreign_hook":
        model.register_comm_hook(None, fp16_compress_hook)
    return model


def average_gradients(parameters: list[torch.nn.Parameter]) -> None:
    """Average the gradients over the ranks, one by one."""
    for parameter in parameters:
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def main(folder: Path, steps: int, mode: str) -> None:
    """Train."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = wrapped(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)), mode)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters[:2], lr=0.1)
    second = torch.optim.SGD(parameters[2:], lr=0.1)
    torch.manual_seed(rank)
    try:
        for _ in range(steps):
            optimizer.zero_grad()
            second.zero_grad()
            if isinstance(model, Ddp):
                with model.no_sync():
                    model(torch.randn(4, 8)).square().mean().backward()
            model(torch.randn(4, 8)).square().mean().backward()
            if mode == "by_hand":
                average_gradients(parameters)
            second.step()
            optimizer.step()
        sys.stdout.write("trained to the end\n")
    finally:
        found = {
            "weights": [round(float(value), 5) for value in torch.cat([p.detach().flatten() for p in parameters])],
            "place": [rank, dist.get_world_size(), int(os.environ["LOCAL_RANK"])],
            "arguments": sys.argv[1:],
            "main": Path(sys.modules["__main__"].__file__ or "").name,
            "set_before_torch": os.environ["SET_BEFORE_TORCH"],
        }
        (folder / f"rank.{rank}").write_text(json.dumps(found), encoding="utf-8")
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
