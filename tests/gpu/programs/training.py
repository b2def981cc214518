# SPDX-License-Identifier: Apache-2.0
"""Training on a device: mixed precision, kinds of optimizers, compiled models, DDP's hook, against one process."""

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import FileStore  # type: ignore[attr-defined]  # exported without being named
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd
from tests.gpu.checks import Bench, checks_of, main

STEPS = 6

Values = list[torch.Tensor]


def network(bench: Bench, dtype: torch.dtype = torch.float32) -> torch.nn.Sequential:
    """Return a network with the same weights on every rank."""
    torch.manual_seed(7)
    layers = (torch.nn.Linear(6, 128), torch.nn.Tanh(), torch.nn.Linear(128, 128), torch.nn.Linear(128, 2))
    return torch.nn.Sequential(*layers).to(bench.device, dtype)


def rows(bench: Bench, step: int, rank: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return the rows that a rank has in a step."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(8, 6, generator=generator).to(bench.device, dtype)


def require_close(expected: Values, got: Values, tolerance: float) -> None:
    """Require equal values up to rounding, and equal bits on all ranks."""
    for right, value in zip(expected, got, strict=True):
        difference = (right.double() - value.double()).abs().max().item()
        assert difference <= tolerance, f"{difference:.3g} apart"
        gathered = hvd.allgather(value.detach().reshape(1, -1))
        assert all(torch.equal(gathered[0], row) for row in gathered), "ranks differ"


Train = Callable[[Bench, bool], Values]


def compare(bench: Bench, train: Train, tolerance: float = 1e-5) -> None:
    """Train alone on all ranks' rows and with ringtune on this rank's, and require the same end."""
    require_close(train(bench, True), train(bench, False), tolerance)


def of_ranks(is_alone: bool) -> list[int]:
    """Return the ranks whose rows are trained on in this process."""
    return list(range(hvd.size())) if is_alone else [hvd.rank()]


def wrapped(optimizer: Any, model: torch.nn.Module, is_alone: bool, **options: Any) -> Any:
    """Return the optimizer that steps."""
    if is_alone:
        return optimizer
    return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), **options)


def check_optimizers(bench: Bench) -> dict[str, int]:
    """Capturable, fused and foreach optimizers, with rates that are tensors on the device."""
    makers: list[Callable[[Any], torch.optim.Optimizer]] = [
        lambda p: torch.optim.Adam(p, lr=0.02, fused=True),
        lambda p: torch.optim.AdamW(p, lr=0.02, foreach=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
        lambda p: torch.optim.RMSprop(p, lr=0.01),
    ]
    if bench.is_gpu:
        makers += [
            lambda p: torch.optim.Adam(p, lr=0.02, capturable=True),
            lambda p: torch.optim.Adam(p, lr=torch.tensor(0.02, device=bench.device), capturable=True),
            lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.02, device=bench.device), fused=True),
        ]
    for make in makers:

        def train(bench: Bench, is_alone: bool, make: Any = make) -> Values:
            model = network(bench, torch.float64)
            optimizer = wrapped(make(model.parameters()), model, is_alone)
            for step in range(STEPS):
                if step == 2 and not is_alone:
                    hvd.broadcast_optimizer_state(optimizer, root_rank=hvd.size() - 1)
                optimizer.zero_grad()
                losses = [model(rows(bench, step, rank, torch.float64)).square().mean() for rank in of_ranks(is_alone)]
                torch.stack(losses).mean().backward()
                optimizer.step()
            for state in optimizer.state.values():
                assert all(part.device == bench.device for name, part in state.items() if name != "step")
            return list(model.parameters())

        compare(bench, train, 1e-9)
    return {"optimizers": len(makers)}


def check_amp_with_overflow(bench: Bench) -> None:
    """Autocast and `GradScaler`: an overflow on one rank makes all ranks skip the step and halve the scale."""
    for dtype in (torch.float16, torch.bfloat16) if bench.is_gpu else (torch.bfloat16,):
        for fused in (False, True):
            model = network(bench)
            inner = torch.optim.AdamW(model.parameters(), lr=0.02, fused=fused)
            optimizer = wrapped(inner, model, False)
            scaler = torch.amp.GradScaler(bench.device.type, init_scale=2.0**10, growth_interval=2)
            scales = []
            for step in range(STEPS):
                inputs = rows(bench, step, hvd.rank())
                if step in {1, 4} and hvd.rank() == step % hvd.size():
                    inputs[0, 0] = float("inf")
                before = [parameter.detach().clone() for parameter in model.parameters()]
                optimizer.zero_grad()
                with torch.autocast(bench.device.type, dtype=dtype):
                    output = model(inputs)
                scaler.scale(output.float().square().mean()).backward()
                scaler.step(optimizer)
                scaler.update()
                scales.append(scaler.get_scale())
                is_same = all(map(torch.equal, before, model.parameters()))
                assert is_same == (step in {1, 4}), f"step {step}: skipped={is_same}"
            assert [[1024.0, 512.0, 512.0, 1024.0, 512.0, 512.0]] * hvd.size() == hvd.allgather_object(scales), scales
            require_close(list(model.parameters()), list(model.parameters()), 0.0)


def check_clipping_under_a_scaler(bench: Bench) -> None:
    """Synchronize, unscale, clip, step: as Horovod's users do it."""

    def train(bench: Bench, is_alone: bool) -> Values:
        model = network(bench)
        optimizer = wrapped(torch.optim.SGD(model.parameters(), lr=0.1), model, is_alone)
        scaler = torch.amp.GradScaler(bench.device.type, init_scale=8.0)
        for step in range(STEPS):
            optimizer.zero_grad()
            losses = [model(rows(bench, step, rank)).square().mean() for rank in of_ranks(is_alone)]
            scaler.scale(torch.stack(losses).mean()).backward()
            if is_alone:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
                scaler.step(optimizer)
            else:
                optimizer.synchronize()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
                with optimizer.skip_synchronize():
                    scaler.step(optimizer)
            scaler.update()
        return list(model.parameters())

    compare(bench, train)


def check_compiled(bench: Bench) -> dict[str, str]:
    """A compiled model, with torch's own code generator on a GPU."""
    backend = "inductor" if bench.is_gpu else "aot_eager"

    def train(bench: Bench, is_alone: bool) -> Values:
        model = network(bench)
        compiled: Any = torch.compile(model, backend=backend)
        optimizer = wrapped(torch.optim.SGD(model.parameters(), lr=0.1), model, is_alone)
        for step in range(STEPS):
            optimizer.zero_grad()
            losses = [compiled(rows(bench, step, rank)).square().mean() for rank in of_ranks(is_alone)]
            torch.stack(losses).mean().backward()
            optimizer.step()
        return list(model.parameters())

    compare(bench, train)
    return {"backend": backend}


def check_compression_and_groups(bench: Bench) -> None:
    """Grouped gradients, and gradients that travel as 16-bit floats within their rounding."""
    for options, tolerance in (
        ({"num_groups": 2}, 1e-5),
        ({"gradient_predivide_factor": 2.0}, 1e-5),
        ({"compression": hvd.Compression.fp16}, 1e-3),
        ({"compression": hvd.Compression.bf16}, 1e-2),
        ({"backward_passes_per_step": 1}, 1e-5),
    ):

        def train(bench: Bench, is_alone: bool, options: Any = options) -> Values:
            model = network(bench)
            optimizer = wrapped(torch.optim.SGD(model.parameters(), lr=0.1), model, is_alone, **options)
            for step in range(STEPS):
                optimizer.zero_grad()
                losses = [model(rows(bench, step, rank)).square().mean() for rank in of_ranks(is_alone)]
                torch.stack(losses).mean().backward()
                optimizer.step()
            return list(model.parameters())

        compare(bench, train, tolerance)


def check_adasum(bench: Bench) -> None:
    """The optimizer with Adasum ends on the device as it does in CPU memory."""
    ended = []
    for device in (bench.reference, bench.device):
        place = Bench(device, bench.folder)
        model = network(place, torch.float64)
        optimizer = wrapped(torch.optim.SGD(model.parameters(), lr=0.1), model, False, op=hvd.Adasum)
        for step in range(STEPS):
            optimizer.zero_grad()
            model(rows(place, step, hvd.rank(), torch.float64)).square().mean().backward()
            optimizer.step()
        ended.append([parameter.detach().cpu() for parameter in model.parameters()])
    require_close(ended[0], ended[1], 1e-9)


def check_ddp_hook(bench: Bench) -> None:
    """`DistributedDataParallel` with ringtune's hook trains as one process does."""
    store = FileStore(str(bench.folder / "ddp_hook.store"), hvd.size())
    torch.distributed.init_process_group("gloo", store=store, rank=hvd.rank(), world_size=hvd.size())

    def train(bench: Bench, is_alone: bool) -> Values:
        model = network(bench, torch.float64)
        trained: Any = model
        if not is_alone:
            trained = DistributedDataParallel(model, bucket_cap_mb=1)
            trained.register_comm_hook(hvd.DdpState(), hvd.ddp_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(STEPS):
            optimizer.zero_grad()
            losses = [trained(rows(bench, step, rank, torch.float64)).square().mean() for rank in of_ranks(is_alone)]
            bench.sleep(1.0)
            torch.stack(losses).mean().backward()
            optimizer.step()
        return list(model.parameters())

    compare(bench, train, 1e-9)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(checks_of(globals()))
