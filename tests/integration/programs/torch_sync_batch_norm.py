# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNorm on parts of a batch against torch's layer on the whole batch, and its evaluation on a rank's own."""

import copy
import io
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

import ringtune.torch as hvd
from tests.integration.plain_rank import say


def part(tensor: torch.Tensor, rows: list[int]) -> torch.Tensor:
    """Return this rank's rows."""
    parts: tuple[torch.Tensor, ...] = tensor.split(rows)
    return parts[hvd.rank()]


def check(alone: Any, shape: tuple[int, ...], rows: list[int], dtype: torch.dtype, **options: Any) -> None:
    """Train three steps both ways and compare."""
    tolerance = 1e-10 if dtype is torch.float64 else 1e-4
    ours: Any = hvd.SyncBatchNorm(4, **options).to(dtype)
    alone = alone.to(dtype)
    if ours.affine:
        with torch.no_grad():
            for module in (ours, alone):
                module.weight.copy_(torch.tensor([1.0, -2.0, 0.5, 3.0]))
                module.bias.copy_(torch.tensor([0.0, 1.0, -1.0, 2.0]))
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        whole = (torch.randn(sum(rows), *shape, generator=generator, dtype=dtype) * 3 + 100).requires_grad_()
        weights = torch.randn(sum(rows), *shape, generator=generator, dtype=dtype)
        own = part(whole.detach(), rows).clone().requires_grad_()
        for module in (ours, alone):
            module.zero_grad()
        result, expected = ours(own), alone(whole)
        assert torch.allclose(part(expected, rows), result, atol=tolerance, rtol=tolerance)
        (result * part(weights, rows)).sum().backward()
        (expected * weights).sum().backward()
        assert own.grad is not None
        assert whole.grad is not None
        assert torch.allclose(part(whole.grad, rows), own.grad, atol=10 * tolerance, rtol=tolerance)
        for mine, theirs in zip(ours.parameters(), alone.parameters(), strict=True):
            assert mine.grad is not None
            joint = hvd.allreduce(mine.grad, op=hvd.Sum)
            assert torch.allclose(theirs.grad, joint, atol=100 * tolerance, rtol=10 * tolerance)
    for (name, mine), theirs in zip(ours.named_buffers(), alone.buffers(), strict=True):
        assert torch.allclose(theirs, mine, atol=10 * tolerance), name
    check_evaluation(ours, alone, part(torch.randn(sum(rows), *shape, dtype=dtype), rows), 10 * tolerance)


def check_evaluation(ours: Any, alone: Any, batch: torch.Tensor, tolerance: float) -> None:
    """Evaluate as torch does, without the other ranks: with running statistics, and with those of the own batch."""
    for module in (ours, alone):
        module.eval()
    for forgets in (False, True)[: 2 if len(batch) > 1 else 1]:
        if forgets:
            for module in (ours, alone):
                module.running_mean = module.running_var = None
        assert torch.allclose(alone(batch), ours(batch), atol=tolerance)


def check_counted(momentum: float | None) -> None:
    """Compare running statistics under a checkpoint, and where a layer stops to track them, with those of torch."""
    torch.manual_seed(1)
    first = torch.nn.Linear(4, 4)
    models: list[Any] = [
        torch.nn.Sequential(copy.deepcopy(first), norm(4, momentum=momentum))
        for norm in (hvd.SyncBatchNorm, torch.nn.BatchNorm1d)
    ]
    for step in range(4):
        whole = torch.randn(4 * hvd.size(), 4, generator=torch.Generator().manual_seed(step)) + step
        for model, batch in zip(models, (part(whole, [4] * hvd.size()), whole), strict=True):
            model[1].track_running_stats = step < 3
            checkpoint(model, batch, use_reentrant=False).sum().backward()
    for (name, mine), theirs in zip(models[0].named_buffers(), models[1].buffers(), strict=True):
        assert torch.allclose(theirs, mine, atol=1e-5), (name, momentum, theirs, mine)


def main() -> None:
    """Check shapes, dtypes, options, uneven batches, a rank without rows, and refusals."""
    torch.set_num_threads(1)
    hvd.init()
    size = hvd.size()
    even, uneven = [4] * size, [3 + 2 * rank for rank in range(size)]
    empty = [0 if rank == size - 1 and size > 1 else 4 for rank in range(size)]
    for dtype in (torch.float64, torch.float32):
        for rows in (even, uneven, empty):
            check(torch.nn.BatchNorm1d(4), (4,), rows, dtype)
            check(torch.nn.BatchNorm2d(4), (4, 3, 5), rows, dtype)
        check(torch.nn.BatchNorm1d(4, affine=False), (4, 6), uneven, dtype, affine=False)
        check(torch.nn.BatchNorm2d(4, momentum=None), (4, 2, 2), even, dtype, momentum=None)
        check(torch.nn.BatchNorm1d(4, track_running_stats=False), (4,), even, dtype, track_running_stats=False)
    check_counted(None)
    check_counted(0.1)
    half = hvd.SyncBatchNorm(4)(torch.randn(5, 4).half())
    assert half.dtype is torch.float16
    all_but_first = hvd.add_process_set(list(range(1, size))) if size > 1 else hvd.global_process_set
    copied = copy.deepcopy(hvd.SyncBatchNorm(4, process_set=all_but_first))
    if all_but_first.included():
        batch = torch.randn(6, 4, generator=torch.Generator().manual_seed(hvd.rank()))
        joint = hvd.allreduce(copied(batch).detach().square().mean(0), process_set=all_but_first)
        assert torch.allclose(torch.ones(4), joint, atol=1e-3)
    torch.save(hvd.SyncBatchNorm(4), io.BytesIO())
    try:
        hvd.SyncBatchNorm(4)(torch.zeros(2, 3))
    except hvd.ConfigError:
        say("statistics are joint")
    hvd.shutdown()


main()
