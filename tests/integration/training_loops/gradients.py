# SPDX-License-Identifier: Apache-2.0
"""Loops that handle gradients themselves: accumulation, clipping, mixed precision, penalties, closures."""

import copy
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import torch

import ringtune.torch as hvd

from .sides import Side, Values, adamw, agree, agreeing, momentum, network, ordinary, refused, rows, squared, weights

STEPS = 6
WIDTHS = (16, 128)


@agreeing(width=WIDTHS, reset=("optimizer", "optimizer, to zero", "model", "by hand"))
def loop_accumulation_with_remainder(side: Side, width: int, reset: str) -> Values:
    """Epochs of five micro-batches, two a step: the fifth is thrown away, by `zero_grad()` of optimizer or model."""
    model = network(width)
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters(), backward_passes_per_step=2)
    for epoch in range(3):
        _reset(reset, model, optimizer)
        for number in range(5):
            side.loss(squared(model, 5 * epoch + number)).backward()
            if number % 2 == 1:
                optimizer.step()
                _reset(reset, model, optimizer)
    return weights(model)


def _reset(how: str, model: torch.nn.Module, optimizer: Any) -> None:
    if how == "by hand":
        for parameter in model.parameters():
            parameter.grad = None
    elif how == "model":
        model.zero_grad()
    else:
        optimizer.zero_grad(set_to_none=how == "optimizer")


@agreeing()
def loop_remainder_stepped(side: Side) -> Values:
    """The last micro-batch of an odd number is stepped with by itself."""
    model = network()
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters(), backward_passes_per_step=2)
    for epoch in range(3):
        for number in range(5):
            side.loss(squared(model, 5 * epoch + number)).backward()
            if number in {1, 3, 4}:
                optimizer.step()
                optimizer.zero_grad()
    return weights(model)


@agreeing()
def loop_two_losses(side: Side) -> Values:
    """Two backward passes over parts of a network before one step, one part in both: two passes a step."""
    model, other = network(), torch.nn.Linear(2, 2)
    both = torch.nn.ModuleList([model, other])
    optimizer = side.wrap(momentum(both.parameters()), both.named_parameters(), backward_passes_per_step=2)
    for step in range(STEPS):
        optimizer.zero_grad()
        side.loss(squared(model, step)).backward()
        side.loss(lambda rank, step=step: other(model(rows(step, rank))).abs().mean()).backward()  # type: ignore[misc]
        optimizer.step()
    return weights(both)


@agreeing(
    width=WIDTHS,
    clip=(
        lambda p: torch.nn.utils.clip_grad_norm_(p, 0.01),
        lambda p: torch.nn.utils.clip_grad_value_(p, 1e-3),
    ),
)
def loop_clipping(side: Side, width: int, clip: Any) -> Values:
    """Clipping by norm and by value between `synchronize()` and `step()` acts on the averaged gradients."""
    model = network(width)
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        side.loss(squared(model, step)).backward()
        side.synchronize(optimizer)
        clip(model.parameters())
        with side.skip_synchronize(optimizer):
            optimizer.step()
    return weights(model)


def _clip(model: torch.nn.Module) -> None:
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)


def _add_noise_on_the_last_rank(model: torch.nn.Module) -> None:
    for parameter in model.parameters() if hvd.rank() == hvd.size() - 1 else ():
        torch.add(torch.ones_like(parameter), torch.randn_like(parameter), out=parameter.grad)


def _replace_on_rank_0(model: torch.nn.Module) -> None:
    for parameter in model.parameters() if hvd.rank() == 0 else ():
        parameter.grad = torch.zeros_like(parameter)


def loop_touched_in_flight() -> None:
    """Gradients written between `backward()` and `step()`, on all ranks or on one, are an error on every rank."""
    for width, touch in product(WIDTHS, (_clip, _add_noise_on_the_last_rank, _replace_on_rank_0)):
        model = network(width)
        before = copy.deepcopy(model)
        optimizer = hvd.DistributedOptimizer(momentum(model.parameters()), named_parameters=model.named_parameters())
        for _ in range(3):
            squared(model, 0)(hvd.rank()).backward()
            touch(model)
            refused(optimizer.step, "synchronize()", "skip_synchronize()")
            optimizer.zero_grad()
        assert all(map(torch.equal, before.parameters(), model.parameters()))
    agree(ordinary)  # the world is as good as it was


@agreeing()
def loop_synchronized_twice(side: Side) -> Values:
    """`synchronize()` and then `step()` without `skip_synchronize()` warns, and steps with the right gradients."""
    model = network()
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        side.loss(squared(model, step)).backward()
        side.synchronize(optimizer)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optimizer.step()
        assert side.is_alone or any("skip_synchronize()" in str(w.message) for w in caught)
    return weights(model)


def loop_scaler_with_overflow() -> None:
    """`scaler.step(optimizer)` as it stands: an overflow on one rank makes all ranks skip and halve the scale."""
    makers: tuple[Callable[[Any], torch.optim.Optimizer], ...] = (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
        lambda p: torch.optim.AdamW(p, lr=0.02, fused=True),
        lambda p: torch.optim.Adagrad(p, lr=0.1, fused=torch.get_default_device().type == "cpu"),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
        lambda p: torch.optim.AdamW(p, lr=0.02),
    )
    for width in WIDTHS:
        for make in makers:

            def loop(side: Side, width: int = width, make: Any = make) -> Values:
                model = network(width).float()
                optimizer = side.wrap(make(model.parameters()), model.named_parameters())
                scaler = torch.amp.GradScaler(torch.get_default_device().type, init_scale=8.0, growth_interval=2)
                scales = []
                for step in range(STEPS):
                    optimizer.zero_grad()
                    scaler.scale(side.loss(_overflowing(model, step))).backward()
                    scaler.step(optimizer)
                    scaler.update()
                    scales.append(scaler.get_scale())
                return {**weights(model), "scales": scales}

            agree(loop)


def _overflowing(model: torch.nn.Module, step: int) -> Callable[[int], torch.Tensor]:
    def of_rank(rank: int) -> torch.Tensor:
        inputs = rows(step, rank).float()
        if step in {1, 3} and rank == (step // 2) % hvd.size():
            inputs[0, 0] = float("inf")
        output: torch.Tensor = model(inputs).square().mean()
        return output

    return of_rank


@agreeing(fused=(False, True))
def loop_scaler_with_clipping(side: Side, fused: bool) -> Values:
    """Horovod's recipe for clipping under a scaler: synchronize, unscale, clip, step without waiting again."""
    model = network(128).float()
    optimizer = side.wrap(torch.optim.AdamW(model.parameters(), lr=0.02, fused=fused), model.named_parameters())
    scaler = torch.amp.GradScaler(torch.get_default_device().type, init_scale=8.0, growth_interval=2)
    scales = []
    for step in range(STEPS):
        optimizer.zero_grad()
        scaler.scale(side.loss(_overflowing(model, step))).backward()
        side.synchronize(optimizer)
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        with side.skip_synchronize(optimizer):
            scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return {**weights(model), "scales": scales}


@agreeing()
def loop_autocast(side: Side) -> Values:
    """Autocast to bfloat16 with weights in float32: no scaler."""
    model = network().float()
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    for step in range(2):
        optimizer.zero_grad()
        with torch.autocast(torch.get_default_device().type, dtype=torch.bfloat16):
            outputs = [(rank, model(rows(step, rank).float())) for rank in range(hvd.size()) if side.is_mine(rank)]
        losses = dict(outputs)
        side.loss(lambda rank, losses=losses: losses[rank].float().square().mean()).backward()  # type: ignore[misc]
        optimizer.step()
    return {"is finite": all(bool(p.isfinite().all()) for p in model.parameters())}


@agreeing()
def loop_gradient_penalty(side: Side) -> Values:
    """A penalty on the gradient's norm: `torch.autograd.grad` with a graph inside the loss."""
    model = network()
    optimizer = side.wrap(adamw(model.parameters()), model.named_parameters())
    for step in range(STEPS):

        def of_rank(rank: int, step: int = step) -> Any:
            inputs = rows(step, rank).requires_grad_()
            score = model(inputs).square().mean()
            (slope,) = torch.autograd.grad(score, inputs, create_graph=True)
            return score + (slope.norm() - 1.0).square()

        optimizer.zero_grad()
        side.loss(of_rank).backward()
        optimizer.step()
    return weights(model)


def loop_closures() -> None:
    """Closures that return a tensor, a number or a numpy scalar; a line search of LBFGS decides alike everywhere."""
    results: tuple[Callable[[torch.Tensor], Any], ...] = (
        lambda loss: loss,
        lambda loss: loss.item(),
        lambda loss: np.float64(loss.item()),
        lambda loss: loss.detach().cpu().numpy(),
        lambda _: None,
    )
    searching: tuple[Callable[[Any], torch.optim.Optimizer], ...] = (
        lambda p: torch.optim.LBFGS(p, lr=0.5, max_iter=5, line_search_fn="strong_wolfe"),
        lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=5),
        momentum,
    )
    for make in searching:
        for result in results[: None if make is momentum else -1]:  # only SGD can do without the loss

            def loop(side: Side, make: Any = make, result: Any = result) -> Values:
                model = network()
                optimizer = side.wrap(make(model.parameters()), model.named_parameters())
                for step in range(3):

                    def closure(step: int = step) -> Any:
                        optimizer.zero_grad()
                        loss = side.loss(squared(model, step))
                        loss.backward()
                        return result(loss)

                    optimizer.step(closure)
                return weights(model)

            agree(loop)


def loop_accumulated_without_saying_so() -> None:
    """Two backward passes a step without `backward_passes_per_step=2` are an error that names it, on every rank."""
    model = network()
    optimizer = hvd.DistributedOptimizer(momentum(model.parameters()), named_parameters=model.named_parameters())
    for _ in range(2):
        squared(model, 0)(hvd.rank()).backward()
        refused(squared(model, 1)(hvd.rank()).backward, "backward_passes_per_step")
        optimizer.zero_grad()
    agree(ordinary)
