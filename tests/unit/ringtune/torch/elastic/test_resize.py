# SPDX-License-Identifier: Apache-2.0
"""Learning rates after a change of the number of ranks: those of a training without it, times the factor."""

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler as schedulers

from ringtune.elastic import Resize
from ringtune.errors import ConfigError
from ringtune.torch.elastic import scale_learning_rate

STEPS = 24
Maker = Callable[[torch.optim.Optimizer], Any]


class Warmup(schedulers.LRScheduler):
    """A scheduler of a program: it goes from the rate that it starts from, and holds another one for later."""

    def __init__(self, optimizer: torch.optim.Optimizer, after: Any = None) -> None:
        self.after = after
        super().__init__(optimizer)

    def get_lr(self) -> list[float | torch.Tensor]:
        """Return the rates of this step."""
        if self.after is not None and self.last_epoch > 4:
            self.after.step()
            return [group["lr"] for group in self.optimizer.param_groups]
        return [base * min(1.0, (self.last_epoch + 1) / 5) for base in self.base_lrs]


MAKERS: dict[str, Maker] = {
    "step": lambda o: schedulers.StepLR(o, 4, 0.5),
    "multistep": lambda o: schedulers.MultiStepLR(o, [3, 9]),
    "lambda": lambda o: schedulers.LambdaLR(o, lambda step: 1 / (1 + step)),
    "multiplicative": lambda o: schedulers.MultiplicativeLR(o, lambda step: 0.9),
    "cosine with a floor": lambda o: schedulers.CosineAnnealingLR(o, 12, eta_min=0.05),
    "restarts with a floor": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 5, 2, eta_min=0.02),
    "polynomial": lambda o: schedulers.PolynomialLR(o, 20, 2.0),
    "one cycle": lambda o: schedulers.OneCycleLR(o, 0.4, total_steps=STEPS + 2),
    "cyclic": lambda o: schedulers.CyclicLR(o, 0.01, 0.3, step_size_up=4, cycle_momentum=False),
    "cyclic, decaying": lambda o: schedulers.CyclicLR(o, 0.01, 0.3, 4, mode="exp_range", gamma=0.9),
    "swa": lambda o: torch.optim.swa_utils.SWALR(o, swa_lr=0.05, anneal_epochs=9),
    "warm-up, then cosine": lambda o: schedulers.SequentialLR(
        o, [schedulers.LinearLR(o, 0.1, total_iters=8), schedulers.CosineAnnealingLR(o, 12, 0.01)], [8]
    ),
    "warm-up, then restarts": lambda o: schedulers.SequentialLR(
        o, [schedulers.LinearLR(o, 0.1, total_iters=3), schedulers.CosineAnnealingWarmRestarts(o, 6)], [3]
    ),
    "a sequence in a chain": lambda o: schedulers.ChainedScheduler(
        [MAKERS["warm-up, then cosine"](o), schedulers.StepLR(o, 7, 0.5)]
    ),
    "chained": lambda o: schedulers.ChainedScheduler(
        [schedulers.LambdaLR(o, lambda step: 1 / (1 + step)), schedulers.ExponentialLR(o, 0.9)]
    ),
    "of the program": Warmup,
    "of the program, around another one": lambda o: Warmup(o, schedulers.CosineAnnealingLR(o, 12, 0.03)),
}


def rates(maker: Maker, resized_at: int | None, *, is_tensor: bool = False) -> list[float]:
    """Return the rates of both groups of an optimizer, step by step."""
    parameters = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
    rate = torch.tensor(0.2, dtype=torch.float64) if is_tensor else 0.2
    optimizer = torch.optim.SGD([{"params": [one]} for one in parameters], lr=rate, momentum=0.9)
    scheduler = maker(optimizer)
    state = SimpleNamespace(optimizer=optimizer, scheduler=scheduler, epoch=0, _hidden=scheduler)
    found = []
    for step in range(STEPS):
        if step == resized_at:
            scale_learning_rate(Resize(state, 2, 4))
        found += [float(group["lr"]) for group in optimizer.param_groups]
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize("resized_at", [2, 5, 13])
@pytest.mark.parametrize("name", MAKERS)
def test_every_later_rate_is_scaled(name: str, resized_at: int) -> None:
    """Before and behind each milestone, tops and floors included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, resized = rates(MAKERS[name], None), rates(MAKERS[name], resized_at)

    begin = 2 * resized_at
    assert pytest.approx(plain[:begin] + [2 * rate for rate in plain[begin:]], rel=1e-9) == resized


def test_a_rate_that_groups_share_is_scaled_once() -> None:
    """An optimizer gives the tensor that it got to each of its groups."""
    plain, resized = rates(MAKERS["step"], None, is_tensor=True), rates(MAKERS["step"], 3, is_tensor=True)

    assert pytest.approx(plain[:6] + [2 * rate for rate in plain[6:]], rel=1e-9) == resized


def test_a_plateau_has_its_floors_scaled() -> None:
    """The last rate is the scaled floor, however often the loss stays."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.2)
    scheduler = schedulers.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, min_lr=0.03)
    scale_learning_rate(Resize(SimpleNamespace(optimizer=optimizer, scheduler=scheduler), 1, 2))

    for _ in range(12):
        scheduler.step(1.0)

    assert pytest.approx(0.06) == optimizer.param_groups[0]["lr"]


class Floored(Warmup):
    """A scheduler with a rate of its own."""

    min_lr = 0.0

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.min_lr = 0.01
        super().__init__(optimizer)


class Foreign:
    """A scheduler that sets rates and is none of torch's kind."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def step(self) -> None:
        """Set the rate."""


@pytest.mark.parametrize(
    ("maker", "words"),
    [
        (Floored, "cannot tell whether min_lr of Floored are learning rates"),
        (lambda o: schedulers.ChainedScheduler([Floored(o)]), "min_lr of Floored"),
        (Foreign, "does not know how Foreign sets learning rates"),
    ],
)
def test_rates_that_are_not_known_are_refused_before_anything_is_scaled(maker: Maker, words: str) -> None:
    """A second rate that stayed would bend the curve without a word."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.2)
    state = SimpleNamespace(optimizer=optimizer, scheduler=maker(optimizer))
    before = optimizer.param_groups[0]["lr"]

    with pytest.raises(ConfigError, match=words):
        scale_learning_rate(Resize(state, 1, 2))
    assert before == optimizer.param_groups[0]["lr"]
