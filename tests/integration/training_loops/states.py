# SPDX-License-Identifier: Apache-2.0
"""Loops about the optimizer's state: schedulers, checkpoints, loggers, copies, hooks."""

import copy
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.optim import lr_scheduler

import ringtune.torch as hvd

from .sides import Side, Values, adamw, agree, agreeing, momentum, network, squared, train_step, weights

STEPS = 6

Scheduler = Callable[[Any], Any]
SCHEDULERS: tuple[Scheduler, ...] = (
    lambda o: lr_scheduler.StepLR(o, 1, 0.5),
    lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    lambda o: lr_scheduler.OneCycleLR(o, 0.2, total_steps=STEPS + 1),  # changes the momentum too
    lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.8)], milestones=[2]
    ),
)


@contextmanager
def _no_warning() -> Iterator[None]:
    """Turn warnings into errors, such as torch's that a scheduler stepped before its optimizer."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*epoch parameter in `scheduler.step.*")  # SequentialLR's own
        yield


def _rates(optimizer: Any) -> Values:
    return {"rates": [float(group["lr"]) for group in optimizer.param_groups]}


@agreeing(make=SCHEDULERS, is_broadcast=(False, True))
def loop_scheduler_before_wrapping(side: Side, make: Scheduler, is_broadcast: bool) -> Values:
    """A scheduler made over the inner optimizer rules the wrapper, with and without a broadcast of the state."""
    model = network()
    inner = momentum(model.parameters())
    with _no_warning():
        scheduler = make(inner)
        optimizer = side.wrap(inner, model.named_parameters())
        if is_broadcast and not side.is_alone:
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        for step in range(STEPS):
            train_step(side, optimizer, model, step)
            scheduler.step()
    same = {"shared": inner.param_groups is optimizer.param_groups and inner.state is optimizer.state}
    return {**weights(model), **_rates(optimizer), **same}


@agreeing(make=SCHEDULERS)
def loop_scheduler_after_wrapping(side: Side, make: Scheduler) -> Values:
    """A scheduler made over the wrapper rules it, after a broadcast and after `load_state_dict` too."""
    model = network()
    optimizer = side.wrap(adamw(model.parameters(), betas=(0.9, 0.99)), model.named_parameters())
    with _no_warning():
        scheduler = make(optimizer)
        for step in range(STEPS):
            if step == 3:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            train_step(side, optimizer, model, step)
            scheduler.step()
    return {**weights(model), **_rates(optimizer)}


@agreeing()
def loop_rate_lowered_on_plateau(side: Side) -> Values:
    """`ReduceLROnPlateau` made before wrapping, fed with the averaged loss."""
    model = network()
    inner = momentum(model.parameters())
    scheduler = lr_scheduler.ReduceLROnPlateau(inner, factor=0.5, patience=0, threshold=0.5)
    optimizer = side.wrap(inner, model.named_parameters())
    for step in range(STEPS):
        train_step(side, optimizer, model, step)
        loss = side.loss(squared(model, 99)).detach()
        scheduler.step(loss if side.is_alone else hvd.allreduce(loss, name="validation"))
    return {**weights(model), **_rates(optimizer)}


@agreeing(
    rate=(
        lambda step: 0.1 / (1 + step),
        lambda step: 0.1 * np.cos(step / 4),
        lambda step: torch.tensor(0.1 / (1 + step), device="cpu"),
    )
)
def loop_rate_set_by_hand(side: Side, rate: Any) -> Values:
    """Options written through the inner optimizer or the wrapper hold for both; numpy and tensor rates too."""
    model = network()
    inner = momentum(model.parameters())
    optimizer = side.wrap(inner, model.named_parameters())
    for step in range(STEPS):
        holder = inner if step % 2 else optimizer
        holder.param_groups[0]["lr"] = rate(step)
        if step == 3 and not side.is_alone:
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        train_step(side, optimizer, model, step)
    return {**weights(model), **_rates(inner)}


def loop_checkpoint_and_resume() -> None:
    """Training that is saved and resumed in the middle ends as if it had not been, with wrapper and scheduler anew."""

    def loop(side: Side, resumes: bool = True) -> Values:  # noqa: FBT002
        model = network(128)
        optimizer = side.wrap(adamw(model.parameters()), model.named_parameters())
        scheduler = lr_scheduler.StepLR(optimizer, 2, 0.5)
        for step in range(STEPS):
            if step == 3 and resumes:
                file = io.BytesIO()
                torch.save([part.state_dict() for part in (model, optimizer, scheduler)], file)
                model = network(128)
                optimizer = side.wrap(adamw(model.parameters()), model.named_parameters())
                scheduler = lr_scheduler.StepLR(optimizer, 2, 0.5)
                file.seek(0)
                states = torch.load(file, weights_only=True)
                for part, state in zip((model, optimizer, scheduler), states, strict=True):
                    part.load_state_dict(state)
            train_step(side, optimizer, model, step)
            scheduler.step()
        return {**weights(model), **_rates(optimizer)}

    agree(loop)
    agree(lambda side: loop(side, resumes=not side.is_alone))  # resumed with ringtune, never alone


@agreeing()
def loop_resumed_by_rank_0(side: Side) -> Values:
    """Rank 0 alone loads a checkpoint of a plain optimizer, after wrapping; all ranks get it by broadcast."""
    trained = network()
    before = momentum(trained.parameters())
    squared(trained, 0)(0).backward()
    before.step()
    model = network()
    inner = momentum(model.parameters(), nesterov=False)
    scheduler = lr_scheduler.StepLR(inner, 1, 0.5)
    optimizer = side.wrap(inner, model.named_parameters())
    if side.is_mine(0):
        before.param_groups[0]["lr"] = 0.05
        optimizer.load_state_dict({**before.state_dict(), "param_groups": _with_initial_rate(before)})
        model.load_state_dict(trained.state_dict())
    if not side.is_alone:
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for step in range(STEPS):
        train_step(side, optimizer, model, step)
        scheduler.step()
    return {**weights(model), **_rates(optimizer), "inner": float(inner.param_groups[0]["lr"])}


def _with_initial_rate(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = optimizer.state_dict()["param_groups"]
    return [{**group, "initial_lr": 0.05} for group in groups]


@agreeing()
def loop_loaded_between_passes(side: Side) -> Values:
    """`load_state_dict` in the middle of an accumulation begins a new one."""
    model = network()
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters(), backward_passes_per_step=2)
    kept = copy.deepcopy(optimizer.state_dict())
    for step in range(4):
        side.loss(squared(model, 50 + step)).backward()
        optimizer.load_state_dict(copy.deepcopy(kept))
        for parameter in model.parameters():
            parameter.grad = None
        for part in range(2):
            side.loss(squared(model, 2 * step + part)).backward()
        optimizer.step()
        kept = copy.deepcopy(optimizer.state_dict())
        optimizer.zero_grad()
    return weights(model)


@agreeing()
def loop_wrapped_anew_every_epoch(side: Side) -> Values:
    """A new optimizer and scheduler every epoch; the old ones leave no state behind."""
    model = network(128)
    for epoch in range(3):
        make = momentum if epoch < 2 else adamw
        optimizer = side.wrap(make(model.parameters()), model.named_parameters())
        scheduler = lr_scheduler.ExponentialLR(optimizer, 0.9)
        for step in range(2):
            train_step(side, optimizer, model, 2 * epoch + step)
            scheduler.step()
    return weights(model)


@agreeing()
def loop_step_hooks(side: Side) -> Values:
    """Hooks on steps, registered before or after wrapping, run once a step."""
    model = network()
    inner = momentum(model.parameters())
    calls: list[str] = []
    inner.register_step_pre_hook(lambda *_: calls.append("before, inner"))
    optimizer = side.wrap(inner, model.named_parameters())
    optimizer.register_step_pre_hook(lambda *_: calls.append("before, wrapper"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after, wrapper"))
    for step in range(2):
        train_step(side, optimizer, model, step)
    return {**weights(model), "calls": calls}


def loop_copies() -> None:
    """Copies and saves of a wrapped optimizer work, or are refused with a sentence; copied models train on."""
    model = network()
    optimizer = hvd.DistributedOptimizer(adamw(model.parameters()), named_parameters=model.named_parameters())
    squared(model, 0)(hvd.rank()).backward()
    optimizer.step()
    for attempt in (lambda: copy.deepcopy(optimizer).step(), lambda: torch.save(optimizer, io.BytesIO())):
        assert "" == _unexpected(attempt)

    def loop(side: Side) -> Values:
        model = network(128)
        optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
        averaged = torch.optim.swa_utils.AveragedModel(model)
        for step in range(STEPS):
            train_step(side, optimizer, model, step)
            averaged.update_parameters(model)
            if step == 2:  # go on with a copy
                model = copy.deepcopy(model)
                optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
        return {**weights(model), **{f"averaged.{name}": value for name, value in averaged.state_dict().items()}}

    agree(loop)


def _unexpected(attempt: Callable[[], object]) -> str:
    """Return the text of an error that does not say to use `state_dict()`; empty where the attempt succeeds."""
    try:
        attempt()
    except hvd.ConfigError as error:
        return "" if "state_dict()" in str(error) else str(error)
    return ""
