# SPDX-License-Identifier: Apache-2.0
"""Loops that change which parameters are trained: freezing, unfreezing, groups, replaced layers, unused branches."""

from typing import Any

import torch

import ringtune.torch as hvd

from .sides import (
    Side,
    Values,
    adamw,
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


@agreeing(
    width=WIDTHS,
    make=(momentum, adamw),
    options=({}, {"groups": 2}, {"backward_passes_per_step": 1, "compression": hvd.Compression.none}),
)
def loop_unfrozen_later(side: Side, width: int, make: Any, options: Any) -> Values:
    """A layer that was frozen while its optimizer was wrapped is trained from the third step on."""
    model = network(width)
    model[0].requires_grad_(False)
    optimizer = side.wrap(make(model.parameters()), model.named_parameters(), **options)
    for step in range(STEPS):
        if step == 2:
            model[0].requires_grad_(True)
        train_step(side, optimizer, model, step)
    return weights(model)


@agreeing()
def loop_unfrozen_before_the_first_step(side: Side) -> Values:
    """A layer is unfrozen between wrapping and the first backward pass, and names were left out."""
    model = network()
    model[2].requires_grad_(False)
    optimizer = side.wrap(momentum(model.parameters()))
    model[2].requires_grad_(True)
    for step in range(STEPS):
        train_step(side, optimizer, model, step)
    return weights(model)


@agreeing()
def loop_unfrozen_layer_by_layer(side: Side) -> Values:
    """Gradual unfreezing from the last layer to the first, with accumulation over two passes."""
    model = network()
    for layer in (0, 2):
        model[layer].requires_grad_(False)
    optimizer = side.wrap(adamw(model.parameters()), model.named_parameters(), backward_passes_per_step=2)
    for step in range(STEPS):
        if step in {2, 4}:
            model[4 - step].requires_grad_(True)
        optimizer.zero_grad()
        for part in range(2):
            side.loss(squared(model, 2 * step + part)).backward()
        optimizer.step()
    return weights(model)


@agreeing(width=WIDTHS, make=(momentum, adamw))
def loop_frozen_later(side: Side, width: int, make: Any) -> Values:
    """A layer that was trained keeps its value from the moment it is frozen, under weight decay and momentum."""
    model = network(width)
    optimizer = side.wrap(make(model.parameters()), model.named_parameters())
    for step in range(STEPS):
        if step == 3:
            model[2].requires_grad_(False)
        train_step(side, optimizer, model, step)
    return weights(model)


@agreeing()
def loop_frozen_and_unfrozen_in_turn(side: Side) -> Values:
    """Two halves of a network are trained in turn, one of them frozen at each step."""
    model = network()
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    for step in range(STEPS):
        model[0].requires_grad_(step % 2 == 0)
        model[4].requires_grad_(step % 2 == 1)
        train_step(side, optimizer, model, step)
    return weights(model)


@agreeing()
def loop_added_group(side: Side) -> Values:
    """A layer comes with `add_param_group` after some steps, and with a learning rate of its own."""
    model, head = network(), torch.nn.Linear(2, 2)
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    for step in range(STEPS):
        if step == 2:
            optimizer.add_param_group({"params": list(head.parameters()), "lr": 0.01})
        both = torch.nn.Sequential(model, head) if step >= 2 else model
        train_step(side, optimizer, both, step)
    return weights(model, head)


@agreeing()
def loop_group_changed_by_hand(side: Side) -> Values:
    """Parameters are put into a group's list by hand, and taken out of it again."""
    model, head = network(), torch.nn.Linear(2, 2)
    optimizer = side.wrap(adamw(model.parameters()), model.named_parameters())
    both = torch.nn.Sequential(model, head)
    for step in range(STEPS):
        if step == 2:
            optimizer.param_groups[0]["params"].extend(head.parameters())
        if step == 4:
            optimizer.param_groups[0]["params"] = list(model.parameters())
        for parameter in both.parameters():
            parameter.grad = None
        side.loss(squared(both, step)).backward()
        optimizer.step()
    return weights(model, head)


@agreeing(width=WIDTHS)
def loop_layer_replaced(side: Side, width: int) -> Values:
    """A layer is replaced by a new one, and the optimizer's group is given the new parameters."""
    model = network(width)
    inner = momentum(model.parameters())
    optimizer = side.wrap(inner, model.named_parameters())
    for step in range(STEPS):
        if step == 3:
            model[2] = torch.nn.Linear(width, width)
            inner.param_groups[0]["params"] = list(model.parameters())
        train_step(side, optimizer, model, step)
    return weights(model)


@agreeing(width=WIDTHS, make=(momentum, adamw))
def loop_unused_by_all(side: Side, width: int, make: Any) -> Values:
    """A parameter that no rank uses keeps its value, whatever optimizer steps; so does one that is used no more."""
    model, unused = network(width), torch.nn.Linear(width, width)
    both = torch.nn.ModuleList([model, unused])
    optimizer = side.wrap(make(both.parameters()), both.named_parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        used = torch.nn.Sequential(*model[:2], unused, *model[3:]) if step == 1 else model
        side.loss(squared(used, step)).backward()
        optimizer.step()
    return {**weights(both), "gradient is None": unused.weight.grad is None}


@agreeing()
def loop_layers_dropped_at_random(side: Side) -> Values:
    """Each step leaves out a layer that all ranks draw alike: stochastic depth."""
    model = network()
    optimizer = side.wrap(adamw(model.parameters()), model.named_parameters())
    for step in range(STEPS):
        kept = torch.nn.Sequential(model[0], model[4]) if step % 3 == 1 else model
        train_step(side, optimizer, kept, step)
    return weights(model)


@agreeing(width=WIDTHS)
def loop_used_by_some_ranks(side: Side, width: int) -> Values:
    """A branch that one rank uses counts as zeros on the others; in the last steps no rank uses it."""
    model, branch = network(width), torch.nn.Linear(2, 2)
    both = torch.nn.ModuleList([model, branch])
    optimizer = side.wrap(momentum(both.parameters()), both.named_parameters())
    for step in range(STEPS):

        def of_rank(rank: int, step: int = step) -> Any:
            result = model(rows(step, rank))
            return (branch(result) if step < 4 and rank == step % 2 else result).square().mean()

        optimizer.zero_grad()
        side.loss(of_rank).backward()
        optimizer.step()
    return weights(both)


@agreeing()
def loop_adapters(side: Side) -> Values:
    """A frozen network with small trained adapters; the frozen part is in the optimizer too."""
    model = network()
    model.requires_grad_(False)
    down, up = torch.nn.Linear(2, 1, bias=False), torch.nn.Linear(1, 2, bias=False)
    whole = torch.nn.Sequential(model, down, up)
    optimizer = side.wrap(adamw(whole.parameters()), whole.named_parameters())
    for step in range(STEPS):
        train_step(side, optimizer, whole, step)
    return weights(whole)


@agreeing(width=WIDTHS, change=("dtype", "shape"))
def loop_dtype_and_shape_changed(side: Side, width: int, change: str) -> Values:
    """Parameters change their dtype, or their shape through `.data`, between steps; small and large ones."""
    model = network(width)
    optimizer = side.wrap(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for step in range(STEPS):
        if step == 3 and change == "dtype":
            model.float()
        if step == 3 and change == "shape":
            model[0].weight.data = torch.cat([model[0].weight.data, torch.zeros(width, 6)])
            model[0].bias.data = torch.cat([model[0].bias.data, torch.zeros(width)])
            model[2].weight.data = torch.cat([model[2].weight.data, torch.ones(width, width)], dim=1)

        def of_rank(rank: int, step: int = step) -> Any:
            return model(rows(step, rank).to(model[0].weight.dtype)).square().mean()

        optimizer.zero_grad()
        side.loss(of_rank).backward()
        optimizer.step()
    return weights(model)


def loop_different_parameters() -> None:
    """Ranks whose parameters differ, in the first one too, get an error at once that names the difference.

    Without names another order shows where the ranks' weights are equal.
    """
    torch.manual_seed(7)
    is_odd = hvd.rank() == 1
    layers = [(f"{number}", torch.nn.Parameter(torch.randn(8, 8))) for number in range(4)]
    wide = torch.nn.Parameter(torch.randn((8, 9)[is_odd], 8))
    precise = torch.nn.Parameter(torch.randn(8, 8, dtype=(torch.float64, torch.float32)[is_odd]))
    other = ("other", torch.nn.Parameter(torch.randn(8, 8)))
    cases: tuple[tuple[list[Any], str], ...] = (
        ((layers, [layers[1], layers[0], *layers[2:]])[is_odd], "another order"),
        ((layers, [*layers[:2], layers[3], layers[2]])[is_odd], "another order"),
        ((layers, layers[1:])[is_odd], "trains 0"),
        ((layers, layers[:-1])[is_odd], "trains 3"),
        ((layers, [other, *layers[1:]])[is_odd], "trains other"),
        ([("0", wide), *layers[1:]], "(float64, shape (8, 8)), that of rank 1 0.case5 (float64, shape (9, 8))"),
        ([*layers[:-1], ("3", precise)], "(float64, shape (8, 8)), that of rank 1 3.case6 (float32, shape (8, 8))"),
    )
    for number, (named, words) in enumerate(cases):  # a name of their own each, for each counts how often it was used
        apart = [(f"{name}.case{number}", own) for name, own in named]
        _refused_at_the_first_step(apart, words)
        _refused_at_the_first_step(apart, words, op=hvd.Adasum)
    for options in ({}, {"op": hvd.Adasum}):
        torch.manual_seed(7)
        nameless = [("", torch.nn.Parameter(torch.randn(8, 8))) for _ in range(4)]
        in_order = (nameless, [nameless[1], nameless[0], *nameless[2:]])[is_odd]
        _refused_at_the_first_step(in_order, "pass named_parameters=", has_names=False, **options)
    agree(ordinary)  # the world is as good as it was


def _refused_at_the_first_step(named: list[Any], words: str, *, has_names: bool = True, **options: Any) -> None:
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([own for _, own in named], lr=0.1), named if has_names else None, **options
    )
    for _, own in named:
        own.grad = torch.ones_like(own)
    refused(optimizer.step, words)


@agreeing()
def loop_optimizers_of_one_rank(side: Side) -> Values:
    """Optimizers that ranks make in another order, or that one rank alone makes and does not step with, do no harm."""
    models = [network() for _ in range(2)]
    in_order = list(enumerate(models)) if hvd.rank() == 0 else list(enumerate(models))[::-1]
    if hvd.rank() == 0:
        side.wrap(momentum(network().parameters()), None)
    made = {}
    for number, model in in_order:
        named = [(f"{number}.{name}", parameter) for name, parameter in model.named_parameters()]
        made[number] = side.wrap(momentum(model.parameters()), named)
    for step in range(STEPS):
        train_step(side, made[step % 2], models[step % 2], step)
    return weights(*models)
