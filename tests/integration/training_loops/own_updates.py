# SPDX-License-Identifier: Apache-2.0
"""Loops that change weights themselves, outside of `step()`: two-step optimizers, updates by hand, restored weights."""

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch.func import functional_call

import ringtune.torch as hvd

from .sides import (
    Side,
    Values,
    agree,
    agreeing,
    momentum,
    network,
    ordinary,
    refused,
    rows,
    squared,
    train_step,
    weights,
)

STEPS = 6
WIDTHS = (16, 128)
RHO = 0.05


class SharpnessAware(torch.optim.Optimizer):
    """Sharpness-aware minimization (Foret et al., 2021) around an inner optimizer, as it is usually written."""

    def __init__(self, parameters: Any, inner: Callable[[Any], torch.optim.Optimizer]) -> None:
        """Share the groups with the inner optimizer."""
        super().__init__(parameters, {})
        self.inner = inner(self.param_groups)
        self.param_groups = self.inner.param_groups

    def _all(self) -> list[Any]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    @torch.no_grad()
    def first_step(self) -> None:
        """Climb along the gradient."""
        norm = torch.stack([parameter.grad.norm() for parameter in self._all()]).norm()
        for parameter in self._all():
            self.state[parameter]["before"] = parameter.data.clone()
            parameter.add_(parameter.grad, alpha=RHO / float(norm))
        self.zero_grad()

    @torch.no_grad()
    def second_step(self) -> None:
        """Return, and step with the gradient from above."""
        for parameter in self._all():
            parameter.data = self.state[parameter]["before"]
        self.inner.step()
        self.zero_grad()

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take both steps; the closure computes the second gradient."""
        self.first_step()
        with torch.enable_grad():
            closure()
        self.second_step()


class Extragradient(torch.optim.SGD):
    """Extragradient as its usual implementation has it: writes go through `.data`."""

    copies: list[torch.Tensor]

    def extrapolate(self) -> None:
        """Look ahead along the gradient."""
        parameters = self.param_groups[0]["params"]
        self.copies = [parameter.data.clone() for parameter in parameters]
        for parameter in parameters:
            parameter.data.add_(parameter.grad, alpha=-0.1)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Step from where the look ahead began."""
        del closure
        for parameter, copy in zip(self.param_groups[0]["params"], self.copies, strict=True):
            parameter.data = copy.add_(parameter.grad, alpha=-0.1)


def loop_two_steps() -> None:
    """Two-step optimizers train as in one process with `synchronize()` before each step."""
    for width in WIDTHS:

        def climbing(side: Side, width: int = width) -> Values:
            model = network(width)
            optimizer = side.wrap(SharpnessAware(model.parameters(), momentum), model.named_parameters())
            for step in range(STEPS):
                for half in (optimizer.first_step, optimizer.second_step):
                    side.loss(squared(model, step)).backward()
                    side.synchronize(optimizer)
                    half()
            return weights(model)

        def looking_ahead(side: Side, width: int = width) -> Values:
            model = network(width)
            optimizer = side.wrap(Extragradient(model.parameters(), lr=0.1), model.named_parameters())
            for step in range(STEPS):
                optimizer.zero_grad()
                side.loss(squared(model, 2 * step)).backward()
                side.synchronize(optimizer)
                optimizer.extrapolate()
                train_step(side, optimizer, model, 2 * step + 1)
            return weights(model)

        agree(climbing)
        agree(looking_ahead)


@agreeing(width=WIDTHS, passes=(1, 2))
def loop_two_steps_with_a_closure(side: Side, width: int, passes: int) -> Values:
    """`backward()` and then `step(closure)`: the first gradient is combined before the closure is called."""
    model = network(width)
    optimizer = side.wrap(
        SharpnessAware(model.parameters(), momentum), model.named_parameters(), backward_passes_per_step=passes
    )
    for step in range(STEPS):

        def closure(step: int = step) -> Any:
            for part in range(passes):
                loss = side.loss(squared(model, 10 * step + part))
                loss.backward()
            return loss

        closure()
        optimizer.step(closure)
    return weights(model)


def loop_closure_on_some_ranks() -> None:
    """A backward pass before `step(closure)` on some ranks alone is an error on every rank."""
    model = network()
    optimizer = hvd.DistributedOptimizer(momentum(model.parameters()), named_parameters=model.named_parameters())

    def closure() -> Any:
        optimizer.zero_grad()
        loss = squared(model, 0)(hvd.rank())
        loss.backward()
        return loss

    if hvd.rank() == 0:
        closure()
    refused(lambda: optimizer.step(closure), "backward()", "step(closure)")
    optimizer.zero_grad()
    agree(ordinary)  # the world is as good as it was


def _trained(optimizer: Any) -> list[Any]:
    return [parameter for parameter in optimizer.param_groups[0]["params"] if parameter.grad is not None]


def _by_hand(optimizer: Any) -> None:
    with torch.no_grad():
        for parameter in _trained(optimizer):
            parameter.sub_(parameter.grad, alpha=0.1)
    optimizer.zero_grad()


def _through_data(optimizer: Any) -> None:
    for parameter in _trained(optimizer):
        parameter.data.sub_(parameter.grad.data, alpha=0.1)
    optimizer.zero_grad(set_to_none=False)


def _on_the_last_rank(optimizer: Any) -> None:
    if hvd.rank() == hvd.size() - 1:
        _through_data(optimizer)
    else:
        optimizer.zero_grad()


def _before_the_step(optimizer: Any) -> None:
    with torch.no_grad():
        for parameter in _trained(optimizer):
            parameter.add_(parameter.grad, alpha=0.1)
    optimizer.step()


def _before_loading(optimizer: Any) -> None:
    state = optimizer.state_dict()
    with torch.no_grad():
        for parameter in _trained(optimizer):
            parameter.data = parameter - 0.1 * parameter.grad
    optimizer.load_state_dict(state)


def loop_used_in_flight() -> None:
    """Weights that a rank changed by gradients in flight are an error on every rank, before the next step."""
    ways: tuple[Callable[[Any], object], ...] = (
        _by_hand,
        _through_data,
        _on_the_last_rank,
        _before_loading,
        _before_the_step,
    )
    for width, use, has_matrices in product(WIDTHS, ways, (True, False)):
        model = network(width)
        for layer in (0, 2, 4):
            model[layer].weight.requires_grad_(has_matrices)
        optimizer = hvd.DistributedOptimizer(momentum(model.parameters()), named_parameters=model.named_parameters())
        _step_alone(model, optimizer)
        squared(model, 1)(hvd.rank()).backward()
        refused(lambda optimizer=optimizer, use=use: use(optimizer), "synchronize()", "torch.autograd.grad()")  # type: ignore[misc]
    for kind in ("first_step", "extrapolate"):
        model = network()
        inner: Any = (
            SharpnessAware(model.parameters(), momentum)
            if kind == "first_step"
            else Extragradient(model.parameters(), lr=0.1)
        )
        optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters())
        squared(model, 0)(hvd.rank()).backward()

        def use(optimizer: Any = optimizer, kind: str = kind) -> None:
            getattr(optimizer, kind)()
            optimizer.zero_grad()

        refused(use, "synchronize()")
    agree(ordinary)  # the world is as good as it was


def _step_alone(model: Any, optimizer: Any) -> None:
    optimizer.zero_grad()
    squared(model, 0)(hvd.rank()).backward()
    optimizer.step()
    optimizer.zero_grad()


def loop_used_while_accumulated() -> None:
    """The same with gradients that are still accumulated on each rank is an error at its second time."""
    model = network()
    optimizer = hvd.DistributedOptimizer(
        SharpnessAware(model.parameters(), momentum),
        named_parameters=model.named_parameters(),
        backward_passes_per_step=2,
    )
    squared(model, 0)(hvd.rank()).backward()
    optimizer.first_step()
    squared(model, 0)(hvd.rank()).backward()
    refused(optimizer.second_step, "again and again", "synchronize()")
    agree(ordinary)  # the world is as good as it was


@agreeing(width=WIDTHS, how=("untouched", "restored", "clamped", "loaded"))
def loop_skipped(side: Side, width: int, how: str) -> Values:
    """Batches are left out by throwing gradients away, with weights untouched, restored, clamped or loaded."""
    model = network(width)
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = optimizer.state_dict()
    for step in range(STEPS):
        side.loss(squared(model, step)).backward()
        if step % 3 != 1:
            optimizer.step()
        elif how in {"restored", "loaded"}:
            model.load_state_dict(saved)
        elif how == "clamped":
            for parameter in model.parameters():
                parameter.data.clamp_(-0.2, 0.2)
        if step % 3 == 1 and how == "loaded":
            optimizer.load_state_dict(state)
        optimizer.zero_grad()
    return weights(model)


@agreeing(decay=(lambda weight: weight.mul_(0.99), lambda weight: weight.data.mul_(0.99)))
def loop_decayed_by_hand(side: Side, decay: Any) -> Values:
    """Weights are decayed between `backward()` and `step()`, alike on all ranks; one part is trained, biases alone."""
    model = network()
    for layer in (0, 2, 4):
        model[layer].weight.requires_grad_(False)
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    for step in range(2 * STEPS):
        optimizer.zero_grad()
        side.loss(squared(model, step)).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                decay(parameter)
        optimizer.step()
    return weights(model)


@agreeing()
def loop_gradients_of_each_rank_alone(side: Side) -> Values:
    """Sharpness-aware minimization whose first step takes each rank's own gradient, by `torch.autograd.grad()`."""
    model = network()
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    for step in range(STEPS):

        def of_rank(rank: int, step: int = step) -> Any:
            named = dict(model.named_parameters())
            slopes = torch.autograd.grad(squared(model, step)(rank), list(named.values()))
            above = {name: own + RHO * slope for (name, own), slope in zip(named.items(), slopes, strict=True)}
            return functional_call(model, above, (rows(step, rank),)).square().mean()

        optimizer.zero_grad()
        side.loss(of_rank).backward()
        optimizer.step()
    return weights(model)


@agreeing()
def loop_climbed_while_accumulated(side: Side) -> Values:
    """A rank's own gradient of an accumulation is used on purpose and thrown away; the step is that of all ranks."""
    model = network()
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters(), backward_passes_per_step=2)
    for step in range(STEPS):
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        if not side.is_alone:
            squared(model, step)(hvd.rank()).backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(parameter.grad, alpha=RHO)
            optimizer.zero_grad()
            model.load_state_dict(before)
        for part in range(2):
            side.loss(squared(model, 2 * step + part)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return weights(model)
