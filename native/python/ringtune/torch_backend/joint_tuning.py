# SPDX-License-Identifier: Apache-2.0
"""`AUTOTUNE=1` under the backend: a model that DDP or FSDP2 wraps is tuned together with the engine.

After the first step the ranks look for the model and meet. Without one, with several, or where a rank has an objection,
the engine's knobs are tuned alone.
"""

import gc
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.distributed import ProcessGroup
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from ringtune.ddp.model import DdpModel
from ringtune.ddp.steps import ForwardHooks
from ringtune.fsdp.model import FsdpModel
from ringtune.fsdp.passes import passes_of
from ringtune.session.session import SESSION
from ringtune.tuning.engine.job import identity_in
from ringtune.tuning.model.call import AutotuneCall
from ringtune.tuning.model.control import ControlGroup, ControlLost
from ringtune.tuning.model.exchange import Exchange
from ringtune.tuning.model.follower import Follower, FollowerLinks
from ringtune.tuning.model.introductions import Company
from ringtune.tuning.model.job import LiveJob
from ringtune.tuning.model.live_model import LiveModel
from ringtune.tuning.model.step_clock import clock_for
from ringtune.world.world import World

from .model_on_engine import TARGET_NAME, ModelOnEngine

WRAPPERS = (DistributedDataParallel, FSDPModule)
MEETING_LIMIT_S = 30.0
"""Longest wait for the other ranks, which are at the end of the same step."""


def start(group: ProcessGroup, world: World) -> Follower | None:
    """Follow the one model of a group whose world is tuned, on every rank; return None where there is none to tune.

    Args:
        group: The default group.
        world: Its world; no step of it is marked yet.
    """
    found = _wrapped_model(group)
    if found is None or world.size == 1 or found.nothing_to_tune() is not None:
        return None
    model = ModelOnEngine(found, world)
    try:
        control = ControlGroup(group, MEETING_LIMIT_S)
        call = AutotuneCall(model, world.settings, world.console)
        company = call.meet(control, model.objection())
        control.set_timeout(world.settings.timeout_s)
    except ControlLost as error:
        world.console.warning(f"the engine is tuned without {found.texts.settings}: the ranks did not meet: {error}")
        return None
    objection = company.objection(model.texts.compared)
    if objection is not None:
        if world.rank == 0:
            world.console.warning(f"the engine is tuned without {found.texts.settings}: {objection}")
        return None
    return _follow(call, company, control, model)


def _follow(call: AutotuneCall, company: Company, control: ControlGroup, model: ModelOnEngine) -> Follower:
    world, tuner = model.world, SESSION.autotune
    watch = model.memory_watch(company.memory_limit_bytes, company.ranks_beside(world.rank))
    exchange = None
    if world.rank == 0 and tuner is not None:
        exchange = Exchange(model.in_force(), tuner.closing)
        plan, shared = call.plan(company, watch), exchange
        identity = identity_in(world, model.gradient_counts(), TARGET_NAME)
        plan = replace(plan, identity=replace(identity, versions=plan.identity.versions))
        tuner.hand_over(lambda memory: LiveJob(plan, memory, shared))
    follower = Follower(
        control, model, FollowerLinks(exchange, clock_for(model.device), world.console.warning, memory=watch)
    )
    follower.follow()
    return follower


def _wrapped_model(group: ProcessGroup) -> LiveModel | None:
    """Return the one model that DDP or FSDP2 wraps in a group, unless a call of `autotune` tunes it."""
    roots = _outermost([item for item in gc.get_objects() if issubclass(type(item), WRAPPERS)])
    if len(roots) != 1:
        return None
    (root,) = roots
    live = _tuned_ddp(root) if isinstance(root, DistributedDataParallel) else _tuned_fsdp(root)
    return live if live is not None and live.group is group else None


def _outermost(modules: Sequence[torch.nn.Module]) -> list[torch.nn.Module]:
    """Return the modules that are in none of the others."""
    inside = {id(part) for module in modules for part in module.modules() if part is not module}
    return [module for module in modules if id(module) not in inside]


def _tuned_ddp(model: DistributedDataParallel) -> DdpModel | None:
    hooks = model._forward_pre_hooks.values()  # noqa: SLF001  (no public list of hooks)
    is_tuned = any(isinstance(getattr(hook, "__self__", None), ForwardHooks) for hook in hooks)
    return None if is_tuned else DdpModel(model)


def _tuned_fsdp(model: torch.nn.Module) -> FsdpModel | None:
    passes = passes_of(model)
    return None if passes.steps is not None else FsdpModel(model, passes)
