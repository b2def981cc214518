# SPDX-License-Identifier: Apache-2.0
"""Questions of the benchmark: each times Gloo's process group and ours in turns, and yields rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from benchmarks.engine.torch_backend.nets import COMPUTE_BOUND, MODELS, STACKS, Generator, Net
from benchmarks.engine.torch_backend.turns import Call, Turns
from ringtune.session.session import SESSION
from ringtune.session.submissions import Reduction, Sum, start_allreduce
from ringtune.torch.buffers import operand_of

SIZES = {1024: 40, 65_536: 40, 1 << 20: 10, 16 << 20: 2, 64 << 20: 1}
"""Calls between two looks at the clock, by bytes."""
STEPS = 10
TOKENS = 32

Groups = Sequence[Any]
Question = Callable[[Groups, Turns], Iterator[str]]


def collectives(groups: Groups, turns: Turns) -> Iterator[str]:
    """Yield a row for every collective and size."""
    for size_bytes, calls in SIZES.items():
        arms = [_collectives_of(size_bytes, group) for group in groups]
        for name in arms[0]:
            yield turns.row(f"{name} {size_bytes} bytes", [arm[name] for arm in arms], calls)


def _collectives_of(size_bytes: int, group: Any) -> dict[str, Call]:
    ranks = dist.get_world_size()
    tensor, part = torch.ones(size_bytes // 4), torch.ones(size_bytes // 4 // ranks)
    whole, other = torch.ones(part.numel() * ranks), torch.empty(part.numel() * ranks)
    return {
        "all_reduce": lambda: dist.all_reduce(tensor, group=group),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all_single": lambda: dist.all_to_all_single(other, whole, group=group),
        "broadcast": lambda: dist.broadcast(tensor, 0, group=group),
    }


def steps_of(nets: Mapping[str, Net], calls: int, kinds: Sequence[str]) -> Question:
    """Return the question for the steps of nets under wrappers."""

    def rows(groups: Groups, turns: Turns) -> Iterator[str]:
        for kind in kinds:
            for name, net in nets.items():
                yield turns.row(f"{kind} {name}", [step_of(kind, net, group) for group in groups], calls)

    return rows


def step_of(kind: str, net: Net, group: Any) -> Call:
    """Return one training step of a net under DDP or FSDP2."""
    torch.manual_seed(0)
    layers = list(net.layers())
    model: nn.Module = nn.Sequential(*layers)
    if kind == "ddp":
        model = DistributedDataParallel(model, process_group=group)
    else:
        mesh = mesh_of(group)
        for layer in (*layers, model):
            fully_shard(layer, mesh=mesh)
    optimizer, batch = torch.optim.SGD(model.parameters(), lr=1e-3), net.batch()

    def step() -> None:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    return step


def mesh_of(group: Any) -> DeviceMesh:
    """Return a group's mesh, with the backend's name: DTensor takes meshes of equal names for each other."""
    return DeviceMesh.from_group(group, "cpu", mesh_dim_names=(dist.get_backend(group),))


def generation(groups: Groups, turns: Turns) -> Iterator[str]:
    """Yield a row for the tokens of a GPT that is cut over the ranks."""
    generators = [Generator(mesh_of(group), 256, 4) for group in groups]
    first, second = (generator.generate(TOKENS) for generator in generators)
    if first != second:
        raise SystemExit(f"Gloo gave the tokens {first}, ringtune {second}")
    yield turns.row(f"{TOKENS} tokens", [partial(generator.generate, TOKENS) for generator in generators], 1)


def parts(_groups: Groups, turns: Turns) -> Iterator[str]:
    """Yield a row for an allreduce of 1 KiB by ever more of the way from torch to the engine."""
    world, tensor, group = SESSION.require(), torch.ones(256), dist.group.WORLD
    engine, operand, options = world.engine, operand_of(tensor), dist.AllreduceOptions()
    assert group is not None
    address, shape = tensor.data_ptr(), (256,)
    ways = {
        "binding and engine": lambda: engine.wait(
            engine.allreduce_async("parts", address, address, shape, operand.dtype, Sum, is_gradient=False)
        ),
        "and submissions": lambda: start_allreduce(
            world, "parts too", (operand, operand), Reduction(Sum), lambda _: None
        ).wait(),
        "and process group": lambda: group.allreduce([tensor], options).wait(),
        "and torch's function": lambda: dist.all_reduce(tensor),
    }
    for name, times in zip(ways, turns.seconds(list(ways.values()), 100), strict=True):
        yield f"{name:36} {1e6 * min(times):6.1f} us at best"


WRAPPERS = ("ddp", "fsdp2")
QUESTIONS: Mapping[str, Question] = {
    "collectives": collectives,
    "stacks": steps_of(STACKS, STEPS, WRAPPERS),
    "models": steps_of(MODELS, STEPS, WRAPPERS),
    "compute": steps_of(COMPUTE_BOUND, 1, ("ddp",)),
    "generation": generation,
    "parts": parts,
}
