# SPDX-License-Identifier: Apache-2.0
"""Loops whose gradients are assigned and not left by `backward()`, compiled steps, and complex parameters."""

from collections.abc import Callable
from typing import Any

import torch

import ringtune.torch as hvd

from .sides import Side, Values, agree, agreeing, momentum, network, rows, squared, train_step, weights

STEPS = 4


def _assign(model: torch.nn.Module, loss: torch.Tensor) -> None:
    for parameter, gradient in zip(
        model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
    ):
        parameter.grad = gradient


def _write(model: torch.nn.Module, loss: torch.Tensor) -> None:
    """Write the gradients into those that there are."""
    for parameter, gradient in zip(
        model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
    ):
        if parameter.grad is None:
            parameter.grad = gradient
        else:
            parameter.grad.copy_(gradient)


@agreeing(assign=(_assign, _write))
def loop_assigned(side: Side, assign: Any) -> Values:
    """Gradients of `torch.autograd.grad`, assigned or written before each step."""
    model = network()
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    for step in range(STEPS):
        assign(model, side.loss(squared(model, step)))
        optimizer.step()
    return weights(model)


def loop_assigned_in_closures() -> None:
    """A closure that assigns or writes gradients is combined at each of its evaluations."""
    makers: tuple[Callable[[Any], torch.optim.Optimizer], ...] = (
        lambda p: torch.optim.LBFGS(p, lr=0.5, max_iter=5, line_search_fn="strong_wolfe"),
        lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=5),
        momentum,
    )
    for make in makers:
        for assign in (_assign, _write):

            def loop(side: Side, make: Any = make, assign: Any = assign) -> Values:
                model = network()
                optimizer = side.wrap(make(model.parameters()), model.named_parameters())
                for step in range(3):

                    def closure(step: int = step) -> torch.Tensor:
                        loss = side.loss(squared(model, step))
                        assign(model, loss)
                        return loss

                    optimizer.step(closure)
                return weights(model)

            agree(loop)


class _Twice(torch.optim.SGD):
    """SGD that asks its closure twice; the second answer is of the loss alone."""

    def step(self, closure: Any = None) -> Any:
        """Step with the gradients of the first evaluation."""
        closure()
        loss = closure()
        super().step()
        return loss


@agreeing()
def loop_closure_of_the_loss_alone(side: Side) -> Values:
    """Gradients of an earlier evaluation are not combined again: their sum would be too large."""
    model = network()
    optimizer = side.wrap(_Twice(model.parameters(), lr=0.01), model.named_parameters(), op=hvd.Sum)
    for step in range(STEPS):
        evaluations = [0]

        def closure(step: int = step, evaluations: list[int] = evaluations) -> Any:
            evaluations[0] += 1
            loss = side.loss(squared(model, step)) * (hvd.size() if side.is_alone else 1)
            if evaluations[0] == 1:
                optimizer.zero_grad()
                loss.backward()
                side.synchronize(optimizer)
                for parameter in model.parameters():
                    parameter.grad.mul_(0.5)
            return loss

        optimizer.step(closure)
    return weights(model)


@agreeing()
def loop_assigned_with_a_scaler(side: Side) -> Values:
    """A step that the scaler leaves out for an overflow does not let the next one go uncombined."""
    model = network().float()
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    scaler = torch.amp.GradScaler(torch.get_default_device().type, init_scale=2.0**10)
    scales = []
    for step in range(STEPS):
        factor = float("inf") if step == 1 else 1.0
        loss = side.loss(lambda rank, step=step: model(rows(step, rank).float()).square().mean())  # type: ignore[misc]
        _assign(model, scaler.scale(loss * factor))
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return {**weights(model), "scales": scales}


@agreeing()
def loop_assigned_and_synchronized(side: Side) -> Values:
    """`synchronize()` combines gradients assigned after a step that the loop left out."""
    model = network()
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    for step in range(STEPS):
        _assign(model, side.loss(squared(model, step)))
        side.synchronize(optimizer)
        if step != 1:
            with side.skip_synchronize(optimizer):
                optimizer.step()
    return weights(model)


@agreeing(part=("step", "optimizer"))
def loop_compiled_steps(side: Side, part: str) -> Values:
    """A compiled training step, or a compiled step of the optimizer, trains as the plain one."""
    model = network()
    optimizer = side.wrap(torch.optim.Adam(model.parameters(), lr=0.02), model.named_parameters())
    torch.compiler.reset()
    compile_: Any = torch.compile
    if part == "step":
        step_of = compile_(lambda step: train_step(side, optimizer, model, step), backend="eager")
    else:
        optimizer_step = compile_(lambda: optimizer.step(), backend="eager")  # noqa: PLW0108  (bound later)

        def step_of(step: int) -> None:
            optimizer.zero_grad()
            side.loss(squared(model, step)).backward()
            optimizer_step()

    for step in range(STEPS):
        step_of(step)
    return weights(model)


class _Complex(torch.nn.Module):
    """A network with complex weights, as those of Fourier layers."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = torch.nn.Parameter(torch.randn(4, 3, dtype=torch.complex128))
        self.unused = torch.nn.Parameter(torch.randn(2, dtype=torch.complex128))
        self.out = torch.nn.Linear(3, 2)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Map (rows, 6) to (rows, 2)."""
        output: torch.Tensor = self.out((torch.fft.rfft(values, dim=1) @ self.mix).abs())
        return output


@agreeing(make=(momentum, lambda p: torch.optim.Adam(p, lr=0.02)))
def loop_complex_parameters(side: Side, make: Any) -> Values:
    """Complex parameters are averaged by their parts; Adam takes them as pairs of numbers."""
    model = _Complex()
    optimizer = side.wrap(make(model.parameters()), model.named_parameters())
    for step in range(STEPS):
        train_step(side, optimizer, model, step)
    return {name: torch.view_as_real(x) if x.is_complex() else x for name, x in weights(model).items()}
