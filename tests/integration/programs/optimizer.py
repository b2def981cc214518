# SPDX-License-Identifier: Apache-2.0
"""Trains with DistributedOptimizer and, beside it, alone on the joined batch; both must agree. Argument: the case."""

from collections.abc import Callable
from typing import Any

import torch

import ringtune.torch as hvd
from tests.integration.joined_batch import (
    STEPS,
    assert_same,
    batch,
    loss_of,
    make_model,
    own_part,
    sgd,
)
from tests.integration.plain_rank import expect_refusal
from tests.integration.torch_cases import main


def distributed(model: torch.nn.Module, optimizer: torch.optim.Optimizer, **options: Any) -> Any:
    """Return the distributed optimizer over the model's parameters."""
    return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), **options)


def train(make: Callable[[Any], torch.optim.Optimizer], *, set_to_none: bool = True) -> None:
    """Train both ways and compare."""
    ours, alone = make_model(), make_model()
    optimizer, reference = distributed(ours, make(ours.parameters())), make(alone.parameters())
    assert isinstance(optimizer, type(reference))
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (optimizer, reference)]
    for step in range(STEPS):
        inputs, targets = batch(step)
        optimizer.zero_grad(set_to_none=set_to_none)
        reference.zero_grad(set_to_none=set_to_none)
        loss_of(ours, own_part(inputs), own_part(targets)).backward()
        loss_of(alone, inputs, targets).backward()
        optimizer.step()
        reference.step()
        for scheduler in schedulers:
            scheduler.step()
    assert_same(ours, alone)


def case_plain() -> None:
    """Two optimizers, gradients set to None or to zero between steps."""
    train(sgd)
    train(sgd, set_to_none=False)
    train(lambda parameters: torch.optim.AdamW(parameters, lr=0.01))


def case_transposed() -> None:
    """A parameter with transposed memory has gradients that are averaged by way of a copy."""
    ours = torch.nn.Parameter(torch.arange(12.0).reshape(3, 4).t())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([ours], lr=1.0))
    (ours * (hvd.rank() + 1.0)).sum().backward()
    assert ours.grad is not None
    assert not ours.grad.is_contiguous()
    optimizer.step()
    mean = sum(range(1, hvd.size() + 1)) / hvd.size()
    assert torch.allclose(torch.arange(12.0).reshape(3, 4).t() - mean, ours.detach())


def case_state() -> None:
    """All ranks take over rank 0's parameters and optimizer state, empty or not, lists and infinities included."""
    for make in (lambda p: torch.optim.Adam(p, lr=0.1 + hvd.rank()), lambda p: torch.optim.LBFGS(p, lr=float("inf"))):
        model = make_model()
        optimizer = make(model.parameters())
        if hvd.rank() != 0:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(1.0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        if isinstance(optimizer, torch.optim.Adam):
            loss_of(model, *batch(0)).backward()
            for _ in range(3 if hvd.rank() == 0 else 0):
                optimizer.step()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert_same(model, model)
        state = optimizer.state_dict()
        everybody = hvd.broadcast_object(state, root_rank=hvd.size() - 1)
        assert repr(everybody) == repr(state)
    assert {"a": (1, [2.5, None]), 3: "x"} == hvd.broadcast_object({"a": (1, [2.5, None]), 3: "x"})
    expect_refusal("cannot be sent", lambda: hvd.broadcast_object(object() if hvd.rank() == 0 else None))


def case_misuse() -> None:
    """Wrong use is a typed error that names the remedy, and the job can go on."""
    model = make_model()
    optimizer = distributed(model, sgd(model.parameters()))
    inputs, targets = batch(0)
    loss_of(model, inputs, targets).backward()
    expect_refusal("backward_passes_per_step=1", lambda: loss_of(model, inputs, targets).backward())
    expect_refusal("was changed on a rank", optimizer.step)
    optimizer.zero_grad()
    loss_of(model, inputs, targets).backward()
    optimizer.step()
    expect_refusal("wrap it once", lambda: hvd.DistributedOptimizer(optimizer))
    named = list(model.named_parameters())
    expect_refusal("lacks 2", lambda: hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=named[:2]))
    repeated = [("same", parameter) for _, parameter in named]
    expect_refusal("repeats", lambda: hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=repeated))
    elsewhere = torch.nn.Parameter(torch.zeros(2, device="meta"))
    kept = hvd.DistributedOptimizer(torch.optim.SGD([elsewhere], lr=0.1))
    expect_refusal("CPU memory", lambda: elsewhere.sum().backward())
    assert kept is not None


if __name__ == "__main__":
    main(globals())
