# SPDX-License-Identifier: Apache-2.0
"""Programs that users write, unchanged on any backend; each compares itself with one plain process where it can."""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from tests.integration.torch_backend.group_cases import Tensors

WIDTH, STEPS, PASSES = 12, 3, 2


def model() -> torch.nn.Module:
    """Return the same small model on every rank."""
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Tanh(), torch.nn.Linear(2 * WIDTH, 3))


def batch(rank: int, step: int) -> torch.Tensor:
    """Return a rank's rows of a step."""
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(100 * step + rank))


def trained_alone(passes: int = 1) -> Tensors:
    """Return the parameters after the steps of one process that has the rows of all ranks."""
    alone = model()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(passes):
            rows = torch.cat([batch(rank, passes * step + part) for rank in range(dist.get_world_size())])
            alone(rows).square().mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in alone.parameters()]


def check_equal(expected: Tensors, actual: Tensors) -> None:
    """Require equal numbers, but for their rounding."""
    for one, other in zip(expected, actual, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)


def ddp_with_accumulation() -> Tensors:
    """DDP with small buckets and two backward passes a step."""
    wrapped = DistributedDataParallel(model(), bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(PASSES):
            with wrapped.no_sync() if part + 1 < PASSES else nullcontext():
                wrapped(batch(dist.get_rank(), PASSES * step + part)).square().mean().backward()
        optimizer.step()
    found = [parameter.detach() for parameter in wrapped.parameters()]
    check_equal(trained_alone(PASSES), found)
    return found


def _ddp_with(hook: Callable[..., object], state: object) -> Tensors:
    wrapped = DistributedDataParallel(model(), bucket_cap_mb=0.001)
    wrapped.register_comm_hook(state, hook)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        wrapped(batch(dist.get_rank(), step)).square().mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in wrapped.parameters()]


def ddp_with_fp16_hook() -> Tensors:
    """DDP whose gradients travel in 16 bits: the hook waits for a future of a future."""
    return _ddp_with(default_hooks.fp16_compress_hook, None)


def ddp_with_power_sgd() -> Tensors:
    """DDP whose gradients are compressed by PowerSGD, whose hook starts one allreduce in the callback of another."""
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    return _ddp_with(powerSGD_hook.powerSGD_hook, state)


def uneven_join() -> Tensors:
    """DDP where rank 0 has fewer steps than the others."""
    wrapped = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    with Join([wrapped]):
        for step in range(1 if dist.get_rank() == 0 else STEPS):
            optimizer.zero_grad()
            wrapped(batch(dist.get_rank(), step)).square().mean().backward()
            optimizer.step()
    return [parameter.detach() for parameter in wrapped.parameters()]


def fsdp2_steps() -> Tensors:
    """FSDP2: parameters are gathered, gradients reduced and scattered."""
    sharded = model()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in sharded.children():
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    optimizer = torch.optim.SGD(sharded.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        sharded(batch(dist.get_rank(), step)).square().mean().backward()
        optimizer.step()
    whole = get_model_state_dict(sharded, options=StateDictOptions(full_state_dict=True))
    found = [value for value in whole.values() if isinstance(value, torch.Tensor)]
    if dist.get_rank() == 0:
        check_equal(trained_alone(), found)
    return found


def tensor_parallel() -> Tensors:
    """Two layers, one cut by columns and one by rows."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    alone, rows = model(), batch(0, 0)
    parallel = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    outputs = parallel(rows)
    outputs.square().mean().backward()
    check_equal([alone(rows)], [outputs])
    return [outputs.detach()]


def distributed_tensors() -> Tensors:
    """DTensor: a matrix product of sharded tensors, gathered."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    left, right = batch(0, 1), batch(0, 2)
    product = distribute_tensor(left, mesh, [Shard(1)]) @ distribute_tensor(right.t().contiguous(), mesh, [Shard(0)])
    assert isinstance(product, DTensor)
    found = product.redistribute(mesh, [Replicate()]).to_local()
    check_equal([left @ right.t()], [found])
    return [found]


def zero_redundancy() -> Tensors:
    """ZeRO-1: each rank has the optimizer's state of a part of the parameters."""
    wrapped = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.SGD, lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        wrapped(batch(dist.get_rank(), step)).square().mean().backward()
        optimizer.step()
    found = [parameter.detach() for parameter in wrapped.parameters()]
    check_equal(trained_alone(), found)
    return found


def metrics() -> Tensors:
    """Evaluation: counts are summed, predictions of different lengths are gathered, the best value is broadcast."""
    rank, size = dist.get_rank(), dist.get_world_size()
    counts = torch.tensor([rank, 10 * rank, 1])
    dist.all_reduce(counts)
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([rank + 2]))
    longest = int(max(length.item() for length in lengths))
    padded = torch.full((longest,), -1.0)
    padded[: rank + 2] = float(rank)
    rows = [torch.empty(longest) for _ in range(size)]
    dist.all_gather(rows, padded)
    names: list[object] = [None] * size
    dist.all_gather_object(names, f"worker {rank}")
    assert [f"worker {peer}" for peer in range(size)] == names
    return [counts, *rows]


def experts() -> Tensors:
    """Expert parallelism: tokens travel to their expert and back, in a sub-group beside the group of all ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    pairs = [dist.new_group([first, first + 1]) for first in range(0, size - 1, 2)]
    group = pairs[min(rank // 2, len(pairs) - 1)]
    if rank // 2 >= len(pairs):
        return []
    tokens = torch.arange(8.0).view(4, 2) + 100 * rank
    there, back = torch.empty_like(tokens), torch.empty_like(tokens)
    dist.all_to_all_single(there, tokens, group=group)
    dist.all_to_all_single(back, there + 1, group=group)
    assert torch.equal(tokens + 1, back)
    return [back]


def static_graph() -> Tensors:
    """DDP with a static graph, whose first pass reduces the buckets after its end."""
    wrapped = DistributedDataParallel(model(), static_graph=True)
    for step in range(STEPS):
        wrapped(batch(dist.get_rank(), step)).square().mean().backward()
    return _gradients(wrapped)


class Either(torch.nn.Module):
    """Two layers, one of which a step uses."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, 3) for _ in range(2))

    def forward(self, rows: torch.Tensor, number: int) -> torch.Tensor:
        """Return the outputs of one of the layers."""
        found: torch.Tensor = self.layers[number](rows)
        return found


def unused_parameters() -> Tensors:
    """DDP that looks for parameters without a gradient, other ones on each rank."""
    wrapped = DistributedDataParallel(Either(), find_unused_parameters=True)
    for step in range(2):
        wrapped(batch(dist.get_rank(), step), (step + dist.get_rank()) % 2).square().mean().backward()
    return _gradients(wrapped)


def sparse_gradients() -> Tensors:
    """DDP over an embedding whose gradients are sparse."""
    torch.manual_seed(0)
    wrapped = DistributedDataParallel(torch.nn.Embedding(10, 4, sparse=True))
    wrapped(torch.tensor([1, 2, dist.get_rank() + 3])).sum().backward()
    return [gradient.to_dense() for gradient in _gradients(wrapped)]


def _gradients(wrapped: torch.nn.Module) -> Tensors:
    return [parameter.grad for parameter in wrapped.parameters() if parameter.grad is not None]


def pipeline() -> Tensors:
    """A pipeline of two stages, under two schedules."""
    rank, layers, found = dist.get_rank(), list(model().children()), []
    part = [torch.nn.Sequential(*layers[:2]), layers[2]][rank]
    for kind in (ScheduleGPipe, Schedule1F1B):
        part.zero_grad()
        stage = PipelineStage(part, rank, 2, torch.device("cpu"))
        schedule = kind(stage, n_microbatches=4, loss_fn=lambda outputs, target: (outputs - target).square().mean())
        if rank == 0:
            schedule.step(torch.cat([batch(0, step) for step in range(4)]))
        else:
            schedule.step(target=torch.zeros(16, 3), losses=[])
        found += [gradient.clone() for gradient in _gradients(part)]
    return found


def compiled_collectives() -> Tensors:
    """Functional collectives in a graph of torch.compile, and a compiled DDP model."""
    group = dist.group.WORLD
    assert group is not None

    @torch.compile(backend="aot_eager", fullgraph=True)
    def compute(rows: torch.Tensor) -> torch.Tensor:
        total = functional.all_reduce(2 * rows, "sum", group)
        joined = functional.all_gather_tensor(total + 1, 0, group)
        part: torch.Tensor = functional.reduce_scatter_tensor(joined, "sum", 0, group)
        return part

    wrapped = DistributedDataParallel(model())
    torch.compile(wrapped, backend="aot_eager")(batch(dist.get_rank(), 0)).square().mean().backward()
    return [compute(torch.arange(4.0) + dist.get_rank()), *_gradients(wrapped)]


def asynchronous_checkpoint() -> Tensors:
    """FSDP2 whose parameters are saved while the program goes on, and loaded again."""
    folder: list[object] = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder, 0)
    sharded = model()
    fully_shard(sharded, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    state = {"model": get_model_state_dict(sharded)}
    saving = async_save(state, checkpoint_id=str(folder[0]), process_group=dist.new_group())
    dist.barrier()
    saving.result()  # type: ignore[union-attr]
    with torch.no_grad():
        for parameter in sharded.parameters():
            parameter.zero_()
    load(state, checkpoint_id=str(folder[0]))
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(str(folder[0]))
    return [tensor.full_tensor() for tensor in state["model"].values() if isinstance(tensor, DTensor)]


CASES: dict[str, Callable[[], Tensors]] = {
    case.__name__: case
    for case in (
        *(ddp_with_accumulation, ddp_with_fp16_hook, ddp_with_power_sgd, uneven_join, fsdp2_steps, tensor_parallel),
        *(distributed_tensors, zero_redundancy, metrics, experts, static_graph, unused_parameters, sparse_gradients),
        *(pipeline, compiled_collectives, asynchronous_checkpoint),
    )
}
OWN_CASES: dict[str, Callable[[], Tensors]] = {}
