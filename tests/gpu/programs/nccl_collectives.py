# SPDX-License-Identifier: Apache-2.0
"""One rank of NCCL that checks collectives to the last bit and times them. Arguments: rank, ranks, store, steps.

The tensors hold whole numbers, whose sums are exact in every order: whatever algorithm and protocol NCCL takes, the
results are known. It prints a line per step and a result per collective for `ringtune tune`.
"""

import sys
from collections.abc import Callable

import torch
from torch import distributed as dist
from torch.distributed import FileStore  # type: ignore[attr-defined]

from ringtune.launch_tuning import StepReport
from tests.gpu.torch_ranks import say_figures

COUNTS = (256, 4 * 1024, 512 * 1024)
"""Elements of four bytes that each rank gives."""


def pattern(count: int, rank: int, device: torch.device) -> torch.Tensor:
    """Return a rank's values."""
    return (torch.arange(count, device=device) % 61 + 100 * rank).float()


def allreduced(count: int, rank: int, ranks: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum over all ranks, and the expected one."""
    found = pattern(count, rank, device)
    dist.all_reduce(found)
    return found, torch.stack([pattern(count, each, device) for each in range(ranks)]).sum(0)


def reduce_scattered(count: int, rank: int, ranks: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this rank's part of the sum, and the expected one."""
    found = torch.full((count,), float("nan"), device=device)
    dist.reduce_scatter_tensor(found, pattern(count * ranks, rank, device))
    whole = torch.stack([pattern(count * ranks, each, device) for each in range(ranks)]).sum(0)
    return found, whole[rank * count : (rank + 1) * count]


def gathered(count: int, rank: int, ranks: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return every rank's tensor, and the expected ones."""
    found = torch.full((count * ranks,), float("nan"), device=device)
    dist.all_gather_into_tensor(found, pattern(count, rank, device))
    return found, torch.cat([pattern(count, each, device) for each in range(ranks)])


COLLECTIVES: tuple[Callable[[int, int, int, torch.device], tuple[torch.Tensor, torch.Tensor]], ...] = (
    allreduced,
    reduce_scattered,
    gathered,
)


def main() -> None:
    """Check all collectives, then time them."""
    rank, ranks, steps = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", store=FileStore(sys.argv[3], ranks), rank=rank, world_size=ranks)
    report = StepReport(rank, skip=1)
    for collective in COLLECTIVES:
        for count in COUNTS:
            found, wanted = collective(count, rank, ranks, device)
            if not torch.equal(found, wanted):
                sys.exit(f"{collective.__name__} of {count} elements gives wrong numbers on rank {rank}")
            report.result(float(found.double().sum()))
    for _ in range(steps + 1):
        with report.step():
            for collective in COLLECTIVES:
                collective(COUNTS[-1], rank, ranks, device)
            torch.cuda.synchronize(device)
    say_figures({"nccl": ".".join(map(str, torch.cuda.nccl.version())), "gpu": torch.cuda.get_device_name(device)})
    dist.destroy_process_group()


main()
