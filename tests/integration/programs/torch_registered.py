# SPDX-License-Identifier: Apache-2.0
"""Gradients that are reduced where they are: training has the same values as without. Arguments: the cases."""

import copy
import gc
import os
import resource
import sys
from pathlib import Path
from typing import Any

import torch

import ringtune.torch as hvd
from ringtune.session.session import SESSION
from tests.integration.torch_cases import main

STEPS = 5
WIDTH = 131  # a weight of 67 KiB, of no whole number of cache lines: large enough for a home


def make_model() -> Any:
    """Return a network whose gradients have odd sizes, with equal weights on all ranks."""
    torch.manual_seed(11)
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH + 2), torch.nn.Linear(WIDTH + 2, 3)
    )


def distributed(model: torch.nn.Module, **options: Any) -> Any:
    """Return a distributed optimizer that trains the model."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), **options)


def backward(model: torch.nn.Module, step: int) -> None:
    """Compute this rank's gradients of a step."""
    generator = torch.Generator().manual_seed(step * 100 + hvd.rank())
    model(torch.randn(16, WIDTH, generator=generator)).square().mean().backward()


def registered_uses() -> int:
    """Return the number of reductions in registered memory."""
    return int(SESSION.require().engine.counters()["algorithm.registered"])


def gradient_of(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Return a gradient that is there."""
    assert parameter.grad is not None
    return parameter.grad


def gradients(model: torch.nn.Module) -> list[torch.Tensor]:
    """Return all gradients; each parameter has one."""
    return [gradient_of(parameter) for parameter in model.parameters()]


def train_beside(options: dict[str, Any], *, set_to_none: bool) -> None:
    """Train, and beside it average each gradient by itself; both have the same bits."""
    ours, beside = make_model(), make_model()
    optimizer, plain = distributed(ours, **options), torch.optim.SGD(beside.parameters(), lr=0.1, momentum=0.9)
    before = registered_uses()
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=set_to_none)
        plain.zero_grad(set_to_none=set_to_none)
        for part in range(options.get("backward_passes_per_step", 1)):
            backward(ours, 10 * step + part)
            backward(beside, 10 * step + part)
        optimizer.step()
        for gradient in gradients(beside):
            hvd.allreduce_(gradient)
        plain.step()
        for mine, expected in zip(ours.parameters(), beside.parameters(), strict=True):
            assert torch.equal(expected, mine), (options, set_to_none, step)
    assert registered_uses() - before >= (STEPS - 1 if hvd.size() > 1 else 0), registered_uses() - before


def case_bits() -> None:
    """All ways to reset and to accumulate give the bits that the ordinary way gives."""
    for set_to_none in (True, False):
        for options in ({}, {"backward_passes_per_step": 2}, {"groups": 2}):
            train_beside(options, set_to_none=set_to_none)


def case_unused() -> None:
    """A parameter that a rank leaves out counts as zeros, and has no gradient before; if all leave it out, none."""
    used, rare = (torch.nn.Parameter(torch.ones(WIDTH, WIDTH)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([used, rare], lr=1.0))
    for step in range(STEPS):
        optimizer.zero_grad()
        takes_part = hvd.rank() == 0 and step % 2 == 0
        (used.sum() + (rare.sum() if takes_part else 0.0)).backward()
        assert takes_part or rare.grad is None
        optimizer.step()
        if step % 2 == 0:
            assert torch.equal(torch.full((WIDTH, WIDTH), 1.0 / hvd.size()), gradient_of(rare)), step
        else:
            assert rare.grad is None, step
        assert torch.equal(torch.ones(WIDTH, WIDTH), gradient_of(used))


def case_kept() -> None:
    """A gradient that the caller keeps is not written to by later steps, and belongs to no other tensor."""
    model = make_model()
    optimizer = distributed(model)
    for step in range(3):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()
    kept = gradients(model)
    expected = [gradient.clone() for gradient in kept]
    for step in range(3):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(expected, kept, strict=True))
    copies = copy.deepcopy(kept)
    assert all(gradient.untyped_storage().nbytes() == gradient.nbytes for gradient in copies)
    for gradient in kept:
        gradient.detach_()


def case_added() -> None:
    """A parameter that is added later is reduced where it is from its second step on."""
    first, second = (torch.nn.Parameter(torch.zeros(WIDTH, WIDTH)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first], lr=1.0))
    for step in range(2 * STEPS):
        if step == STEPS:
            optimizer.add_param_group({"params": [second]})
        optimizer.zero_grad()
        ((first + second) * (hvd.rank() + 1.0)).sum().backward()
        optimizer.step()
    mean = (hvd.size() + 1) / 2
    assert torch.equal(torch.full_like(first, -2 * STEPS * mean), first.detach())
    assert torch.equal(torch.full_like(second, -STEPS * mean), second.detach())


def case_rejoined() -> None:
    """Gradients can be read after the world has ended, and live in the next one's memory after its first step."""
    model = make_model()
    optimizer = distributed(model)
    for step in range(3):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()
    expected = [gradient.clone() for gradient in gradients(model)]
    hvd.shutdown()
    gc.collect()
    assert all(torch.equal(a, b) for a, b in zip(expected, gradients(model), strict=True))
    hvd.init()
    for step in range(3):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        backward(model, step)
        optimizer.step()
    assert registered_uses() >= (2 if hvd.size() > 1 else 0)


def case_forked() -> None:
    """A forked child reads its parent's gradients."""
    model = make_model()
    optimizer = distributed(model)
    for step in range(3):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()
    expected = [gradient.clone() for gradient in gradients(model)]
    child = os.fork()
    if child == 0:
        os._exit(0 if all(torch.equal(a, b) for a, b in zip(expected, gradients(model), strict=True)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def case_joined() -> None:
    """A rank that has no data in the first steps is waited for before memory is laid out."""
    model = make_model()
    optimizer = distributed(model)
    for step in range(3 if hvd.rank() > 0 or hvd.size() == 1 else 0):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()
    hvd.join()
    before = registered_uses()
    hvd.broadcast_parameters(model.state_dict(), root_rank=hvd.size() - 1)
    for step in range(3):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()
    assert registered_uses() - before >= (2 if hvd.size() > 1 else 0)


def case_elsewhere() -> None:
    """Gradients that travel otherwise, or are no dense tensors, are reduced as before."""
    table = torch.nn.Embedding(WIDTH, WIDTH, sparse=True)
    transposed = torch.nn.Parameter(torch.zeros(WIDTH, 2 * WIDTH).t())
    sparse = hvd.DistributedOptimizer(torch.optim.SGD([*table.parameters(), transposed], lr=1.0))
    narrow = torch.nn.Parameter(torch.zeros(WIDTH, WIDTH))
    compressed = hvd.DistributedOptimizer(torch.optim.SGD([narrow], lr=1.0), compression=hvd.Compression.fp16)
    before = registered_uses()
    for _ in range(3):
        for optimizer in (sparse, compressed):
            optimizer.zero_grad()
        (table(torch.tensor([hvd.rank()])).sum() + transposed.sum() + narrow.sum()).backward()
        for optimizer in (sparse, compressed):
            optimizer.step()
    assert registered_uses() == before
    assert torch.equal(torch.full_like(narrow, -3.0), narrow.detach())
    assert torch.equal(torch.full_like(transposed, -3.0), transposed.detach())


def limit_address_space() -> None:
    """Leave too little for the ranks' arenas."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    limit = pages * resource.getpagesize() + 4 * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def case_short() -> None:
    """Without address space for the arenas gradients go the ordinary way."""
    model = make_model()
    optimizer = distributed(model)
    for step in range(3):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()
    assert registered_uses() == 0


if __name__ == "__main__":
    if sys.argv[1:] == ["short"]:
        limit_address_space()
    main({name: member for name, member in globals().items() if name != "case_short" or sys.argv[1:]})
