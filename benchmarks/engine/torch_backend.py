# SPDX-License-Identifier: Apache-2.0
"""Collectives and training steps of torch.distributed, over Gloo and over the backend "ringtune", in one process group.

    python -m benchmarks.engine.torch_backend [--form python] [--ranks N] [--rounds N] [collectives] [steps] [parts]

Both backends take turns in each round; a row has the medians, and the median ratio with its quartiles.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel

from ringtune.graph_operations import graph_library
from ringtune.session.session import SESSION
from ringtune.session.submissions import Reduction, Sum, start_allreduce
from ringtune.torch.buffers import operand_of

SIZES = {1024: 40, 65_536: 40, 1 << 20: 10, 16 << 20: 2, 64 << 20: 1}
"""Calls between two looks at the clock, by bytes."""
NETS = (("ddp", 128, 6), ("ddp", 512, 6), ("ddp", 64, 80), ("fsdp2", 128, 6), ("fsdp2", 512, 6))
"""Wrapper, width and number of layers."""

Call = Callable[[], Any]


def collectives(size_bytes: int, ranks: int, group: Any) -> dict[str, Call]:
    """Return calls by name, on tensors of a size."""
    tensor, part = torch.ones(size_bytes // 4), torch.ones(size_bytes // 4 // ranks)
    whole, other = torch.ones(part.numel() * ranks), torch.empty(part.numel() * ranks)
    return {
        "all_reduce": lambda: dist.all_reduce(tensor, group=group),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all_single": lambda: dist.all_to_all_single(other, whole, group=group),
        "broadcast": lambda: dist.broadcast(tensor, 0, group=group),
    }


def step_of(kind: str, width: int, layers: int, group: Any) -> Call:
    """Return one training step of a stack of layers."""
    torch.manual_seed(0)
    blocks = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(layers)]
    net: torch.nn.Module = torch.nn.Sequential(*blocks)
    if kind == "ddp":
        net = DistributedDataParallel(net, process_group=group)
    else:
        mesh = DeviceMesh.from_group(group, "cpu")
        for block in blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(net, mesh=mesh)
    optimizer, rows = torch.optim.SGD(net.parameters(), lr=1e-3), torch.randn(16, width)

    def step() -> None:
        optimizer.zero_grad()
        net(rows).sum().backward()
        optimizer.step()

    return step


def parts() -> dict[str, Call]:
    """Return an allreduce of 1 KiB by ever more of the way from torch to the engine."""
    world, tensor, group = SESSION.require(), torch.ones(256), dist.group.WORLD
    engine, operand, options = world.engine, operand_of(tensor), dist.AllreduceOptions()
    assert group is not None
    address, shape = tensor.data_ptr(), (256,)
    return {
        "binding and engine": lambda: engine.wait(
            engine.allreduce_async("parts", address, address, shape, operand.dtype, Sum, is_gradient=False)
        ),
        "and submissions": lambda: start_allreduce(
            world, "parts too", (operand, operand), Reduction(Sum), lambda _: None
        ).wait(),
        "and process group": lambda: group.allreduce([tensor], options).wait(),
        "and torch's function": lambda: dist.all_reduce(tensor),
    }


def timed(arms: Sequence[Call], calls: int, rounds: int) -> list[list[float]]:
    """Return the seconds per call of each arm in every round, the arms in turn and in changing order."""
    for _ in range(3):
        for arm in arms:
            arm()
    found: list[list[float]] = [[] for _ in arms]
    for number in range(rounds):
        order = range(len(arms)) if number % 2 else reversed(range(len(arms)))
        for index in order:
            dist.barrier()
            begin_s = time.perf_counter()
            for _ in range(calls):
                arms[index]()
            found[index].append((time.perf_counter() - begin_s) / calls)
    return found


def show(name: str, gloo: list[float], ours: list[float]) -> None:
    """Print a row, on rank 0."""
    ratios = statistics.quantiles([mine / other for mine, other in zip(ours, gloo, strict=True)], n=4)
    medians = [1e6 * statistics.median(times) for times in (gloo, ours)]
    if dist.get_rank() == 0:
        sys.stdout.write(
            f"{name:34} gloo {medians[0]:9.0f} us  ringtune {medians[1]:9.0f} us  "
            f"ratio {ratios[1]:.2f} ({ratios[0]:.2f} to {ratios[2]:.2f})\n"
        )
        sys.stdout.flush()


def measure_collectives(groups: Sequence[Any], given: argparse.Namespace) -> None:
    """Print a row for every collective and size."""
    for size_bytes, calls in SIZES.items():
        arms = [collectives(size_bytes, given.ranks, group) for group in groups]
        for name in arms[0]:
            show(f"{name} {size_bytes} bytes", *timed([arm[name] for arm in arms], calls, given.rounds))


def measure_steps(groups: Sequence[Any], given: argparse.Namespace) -> None:
    """Print a row for every net."""
    for kind, width, layers in NETS:
        arms = [step_of(kind, width, layers, group) for group in groups]
        show(f"{kind} {layers} layers {width} wide", *timed(arms, 10, given.rounds))


def measure_parts(_groups: Sequence[Any], given: argparse.Namespace) -> None:
    """Print a row for every part of the way."""
    ways = parts()
    for name, times in zip(ways, timed(list(ways.values()), 100, given.rounds), strict=True):
        if dist.get_rank() == 0:
            sys.stdout.write(f"{name:34} {1e6 * min(times):6.1f} us at best {1e6 * statistics.median(times):6.1f}\n")


QUESTIONS = {"collectives": measure_collectives, "steps": measure_steps, "parts": measure_parts}


def measure(rank: int, given: argparse.Namespace, meeting: str) -> None:
    """Measure the given questions, on one rank."""
    torch.set_num_threads(1)
    if given.form == "python":
        graph_library.library_folders = lambda: iter(())  # as if the compiled form had not been built
    dist.init_process_group("ringtune", init_method=f"file://{meeting}", rank=rank, world_size=given.ranks)
    groups = (dist.new_group(backend="gloo"), dist.group.WORLD)
    for question in given.what:
        QUESTIONS[question](groups, given)
    dist.destroy_process_group()


def main() -> None:
    """Start the ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", nargs="*", default=list(QUESTIONS), metavar="|".join(QUESTIONS))
    parser.add_argument("--form", choices=["compiled", "python"], default="compiled", help="compiled where built")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        start_processes(measure, (given, meeting), given.ranks, start_method="fork")


if __name__ == "__main__":
    main()
