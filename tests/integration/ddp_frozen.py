# SPDX-License-Identifier: Apache-2.0
"""Scenarios of `ddp_autotune`: layers are frozen and trained again while the buckets of a DDP model change."""

from itertools import product
from typing import Any
from unittest.mock import patch

from torch import distributed as dist

from tests.integration.ddp_switching import SIZES, compare, follow
from tests.integration.ddp_training import Branches, train, wrapped

REFUSALS = ("our training graph has changed in this iteration", "Expected to have finished reduction in the prior")


def freeze_stack(model: Any, step: int) -> None:
    """Freeze a backbone until the last steps."""
    model.stack.requires_grad_(step >= 18)


def freeze_halves(model: Any, step: int) -> None:
    """Train one half in a step and the other in the next, as generators and discriminators are."""
    model.stack.requires_grad_(step % 2 == 0)
    model.branches.requires_grad_(step % 2 == 1)


def freeze_on_rank_0(model: Any, step: int) -> None:
    """Freeze a layer on one rank alone, on and off."""
    model.stack[2].requires_grad_(dist.get_rank() != 0 or step % 3 == 0)


def frozen() -> None:
    """Layers that are frozen while the buckets change are reduced again once they are trained, as with DDP alone."""
    for freeze in (freeze_stack, freeze_halves, freeze_on_rank_0):
        compare(f"{freeze.__name__}", freeze=freeze, find_unused_parameters=True)
        compare(f"{freeze.__name__}, views", freeze=freeze, find_unused_parameters=True, gradient_as_bucket_view=True)
    compare("frozen, no_sync", freeze=freeze_stack, passes=2, find_unused_parameters=True)
    compare("frozen, static graph", freeze=lambda model, _: model.stack.requires_grad_(False), static_graph=True)


def unfrozen() -> None:
    """Layers that were frozen when the model was wrapped are not reduced later, with a tuner as without."""
    with patch.object(Branches, "__init__", new=init_frozen):
        compare("unfrozen", freeze=lambda model, step: model.stack[:3].requires_grad_(step >= 10))


def init_frozen(model: Branches, init: Any = Branches.__init__) -> None:
    """Freeze half of the stack of a model before it is wrapped."""
    init(model)
    model.stack[:3].requires_grad_(False)


def unready() -> None:
    """DDP's error about a layer that is used no more comes as without a tuner, also at the change of the buckets."""
    changes: tuple[dict[str, Any], ...] = (
        {"freeze": lambda model: model.stack[0].requires_grad_(False)},
        {"uses": (0,)},
    )
    for change, is_static, at in product(changes, (False, True), (7, 8, 9)):  # the buckets change before step 8
        steps = [refused_by_ddp(at, is_static=is_static, is_tuned=is_tuned, **change) for is_tuned in (False, True)]
        assert steps[0] == steps[1] == at + 1, (change, is_static, at, steps)


def refused_by_ddp(
    at: int, *, is_static: bool, is_tuned: bool, freeze: Any = None, uses: tuple[int, ...] = (0, 1)
) -> int:
    """Return the step at which DDP refuses, on all ranks, a graph that changes in a step."""
    model = wrapped(static_graph=is_static)
    exchange = follow(model)[1] if is_tuned else None
    for step in range(16):
        if step == at and freeze is not None:
            freeze(model.module)
        if step == 5 and exchange is not None:
            exchange.ask(SIZES[0].words())
        if not _trains(model, uses if step >= at else (0, 1)):
            return step
    return 0


def _trains(model: Any, used: tuple[int, ...]) -> bool:
    """Train a step; return whether DDP did not refuse it."""
    try:
        train(model, 1, uses=lambda *_: used)
    except RuntimeError as error:
        if not any(words in str(error) for words in REFUSALS):
            raise
        return False
    return True
