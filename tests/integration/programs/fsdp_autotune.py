# SPDX-License-Identifier: Apache-2.0
"""One rank under FSDP2 on Gloo, whose settings change while it trains. Arguments: rank, ranks, file, scenarios, log."""

import gc
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any
from unittest.mock import patch

import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from ringtune.fsdp import FsdpTuner, apply, autotune
from ringtune.fsdp.model import FsdpModel
from ringtune.fsdp.passes import passes_of
from ringtune.fsdp.settings import FsdpSettings
from ringtune.fsdp.units import Unit, units_of
from ringtune.tuning.model.control import ControlGroup
from ringtune.tuning.model.exchange import Exchange
from ringtune.tuning.model.follower import ROUND_STEPS, Follower, FollowerLinks
from ringtune.tuning.model.step_clock import HostSteps
from tests.integration.fsdp_training import (
    Block,
    Pair,
    Stack,
    differing,
    inputs_of,
    local_weights,
    sharded,
    train,
    wrapped,
)
from tests.integration.plain_rank import expect_refusal, say

RANK, WORLD, LOG = int(sys.argv[1]), int(sys.argv[2]), sys.argv[5]
LIMIT_S = 240.0
SETTINGS = [
    FsdpSettings(2, 2, 3),
    FsdpSettings(5, 0, 0),
    FsdpSettings(1, 1, 1),
    FsdpSettings(0, 4, 2),
    FsdpSettings(3, 0, 2),
    FsdpSettings(),
]


class Room:
    """A watch over memory that the test sets: room under the first settings, and under all others."""

    limit_bytes = 1 << 40

    def __init__(self, model: FsdpModel, others: int) -> None:
        self.model, self.others = model, others

    def room_bytes(self) -> int:
        """Return the room that the test has set."""
        return 1 << 30 if self.model.in_force() == (0, 0, 0) else self.others

    def reset(self) -> None:
        """Ignore it: the room is fixed."""


def follow(model: torch.nn.Module, room: int | None = None) -> tuple[Follower, Exchange, list[str]]:
    """Follow a model without a tuner; the caller makes the wishes and reads the warnings."""
    live, warnings = FsdpModel(model, passes_of(model)), list[str]()
    exchange = Exchange(live.in_force())
    memory = None if room is None else Room(live, room)
    links = FollowerLinks(exchange if RANK == 0 else None, HostSteps(), warnings.append, memory=memory)
    follower = Follower(ControlGroup(live.group, LIMIT_S), live, links)
    follower.follow()
    return follower, exchange, warnings


def compare(make: Callable[[], torch.nn.Module], steps: int = 26, **ways: Any) -> None:
    """Train twice, with and without changes of the settings: all weights agree to the last bit after every step."""
    expected = train(make(), steps, **ways)
    model = make()
    follower, exchange, warnings = follow(model)
    seen = set()

    def before(step: int) -> None:
        seen.add(follower.words)
        if step % 4 == 1:
            exchange.ask(SETTINGS[step // 4 % len(SETTINGS)].words())

    actual = train(model, steps, before=before, **ways)
    found = differing(expected, actual)
    assert found is None, found
    assert [] == warnings, warnings
    assert len(seen) >= len(SETTINGS), seen
    assert follower._step in {steps - 1, steps}, follower._step  # the last one ends with the next forward pass


def plain() -> None:
    """Blocks and a root."""
    compare(wrapped)


def accumulation() -> None:
    """Three passes in a step, of which the last one reduces gradients."""
    compare(wrapped, passes=3)


def bfloat16() -> None:
    """Parameters are gathered in bfloat16, gradients reduced in float32."""
    compare(lambda: wrapped(mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32)))


def checkpointed() -> None:
    """Activations are computed anew in the backward pass."""
    compare(lambda: wrapped(lambda: Stack(is_checkpointed=True)))


def evaluation() -> None:
    """Passes without gradients, and without a backward pass, between a backward pass and the optimizer."""
    compare(without_own, between=evaluated)


def state() -> None:
    """The state is saved and loaded in the midst of it."""
    compare(wrapped, between=saved_and_loaded)


def frozen() -> None:
    """Some parameters are not trained."""
    compare(partly_frozen)


def roots() -> None:
    """Two roots in a model that is none."""
    compare(pair)


def own_settings() -> None:
    """The user has set all that the tuner sets, here and there."""
    compare(set_up)


def compiled() -> None:
    """Compiled blocks."""
    compare(compiled_blocks)


def evaluated(model: torch.nn.Module, step: int) -> None:
    """Evaluate between backward pass and optimizer, with and without gradients: stale weights would show at once."""
    if step % 3 == 0:
        model.eval()
        with torch.no_grad():
            model(inputs_of(step, 7))
        kept = [group for unit in units_of(model)[1:] for group in unit.groups if group.is_unsharded]
        assert [] == kept, "an evaluation keeps what the user frees"
        model.train()
    if step % 5 == 0:
        model(inputs_of(step, 8))  # its output is not used


def saved_and_loaded(model: torch.nn.Module, step: int) -> None:
    """Save the shards, spoil them, and load them again."""
    if step % 3 == 0:
        saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        model.load_state_dict({name: torch.zeros_like(tensor) for name, tensor in saved.items()})
        model.load_state_dict(saved)


def without_own() -> torch.nn.Module:
    """Return a model whose root has no parameters of its own, so that FSDP2 makes no group for it."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(*(Block() for _ in range(5)))
    for block in model:
        fully_shard(block)
    fully_shard(model)
    return model


def partly_frozen() -> torch.nn.Module:
    """Return a model that trains its last blocks alone."""
    torch.manual_seed(3)
    model = Stack()
    for part in (model.first, model.blocks[0], model.blocks[1]):
        part.requires_grad_(False)
    return sharded(model)


def pair() -> torch.nn.Module:
    """Return two models under FSDP2 in one that is not."""
    torch.manual_seed(3)
    both = Pair()
    sharded(both.encoder)
    sharded(both.decoder)
    return both


def set_up() -> torch.nn.Module:
    """Return a model whose user has set all that the tuner sets, here and there; a block has a unit inside."""
    torch.manual_seed(3)
    model = Stack(7)
    blocks: list[Any] = list(model.blocks)
    fully_shard(blocks[2].up)
    for index, block in enumerate(blocks):
        fully_shard(block, reshard_after_forward=index != 4)
    fully_shard(model, reshard_after_forward=True)
    blocks[0].set_modules_to_forward_prefetch(blocks[1:3])
    blocks[6].set_modules_to_backward_prefetch([blocks[5], blocks[3]])
    return model


def compiled_blocks() -> torch.nn.Module:
    """Return a model whose blocks are compiled, by a back end that needs no compiler."""
    torch.manual_seed(3)
    model = Stack(4)
    for block in model.blocks:
        block.compile(backend="aot_eager")
    return sharded(model)


def state_of(model: torch.nn.Module) -> list[Any]:
    """Return all settings of a model, as FSDP2 has them."""
    return [unit.user_settings() for unit in units_of(model)]


def restored() -> None:
    """The user's own settings come back as they were: mixed, with prefetch lists."""
    model = set_up()
    follower, exchange, _ = follow(model)
    train(model, 3)
    first = state_of(model)
    for settings in SETTINGS:
        exchange.ask(settings.words())
        train(model, 6)
        assert follower.words == settings.words(), follower.words
        with torch.no_grad():
            model(inputs_of(0))
        assert first == state_of(model), settings
        model(inputs_of(0)).sum().backward()
        assert (first == state_of(model)) == (settings == FsdpSettings()), settings


def effects() -> None:
    """Every setting acts: the number of gathers in the backward pass, and how early they begin."""
    model = wrapped()
    apply(model, kept_modules=2, forward_prefetch=2, backward_prefetch=3)
    train(model, 2)
    blocks = [Unit(block) for block in model.blocks]
    with torch.enable_grad():
        loss = model(inputs_of(0)).sum()
    assert [True, True, True, False, False] == [unit.is_sharded for unit in blocks]
    loss.backward()
    assert all(unit.is_sharded for unit in blocks)
    assert [2, 2, 2, 1, 0] == [len(unit.user_settings().forward) for unit in blocks]
    assert [0, 1, 2, 3, 3] == [len(unit.user_settings().backward) for unit in blocks]


def over_the_limit() -> None:
    """Settings whose peak is above the limit are left by all ranks at the same step, and others can follow."""
    model = wrapped()
    follower, exchange, warnings = follow(model, -1 if RANK == WORLD - 1 else 1)
    train(model, 3)
    exchange.ask((3, 0, 0))
    steps = [follower.words for step in range(12) if train(model, 1)]
    first = steps.index((3, 0, 0))
    assert steps[first : first + ROUND_STEPS + 2].count((3, 0, 0)) <= ROUND_STEPS + 2
    assert (0, 0, 0) == steps[-1], steps
    assert RANK or exchange.memory.is_refused(1)
    exchange.ask((2, 0, 0))
    train(model, 12)
    assert RANK or exchange.memory.is_refused(2)
    exchange.ask((1, 0, 0))
    exchange.settle()
    train(model, 40)
    assert (True, (0, 0, 0)) == (tuning_state := (follower.is_over, follower.words)), tuning_state
    assert [RANK == 0] == ["that the tuner had decided on" in text for text in warnings or [""]], warnings
    say(f"left the settings after {first} steps")


def steps_until(tuner: FsdpTuner, model: torch.nn.Module) -> int:
    """Train until the tuner has finished; return the number of steps, which is the same on every rank."""
    end_s = time.monotonic() + LIMIT_S
    for step in count(1):
        train(model, 1)
        if tuner.is_finished:
            return step
        assert time.monotonic() < end_s, step
    raise AssertionError


def tuned() -> None:
    """The tuner comes to its end while the loop stays as it is; the weights are those of an untuned run."""
    model = wrapped()
    with autotune(model, log=LOG, max_samples=4, warmup_steps=4, steps_per_sample=4) as tuner:
        steps = steps_until(tuner, model)
        assert (tuner.result is not None) == (RANK == 0)
        say(f"ended after {steps} steps with {dict(tuner.config or {})}")
    untuned = wrapped()
    for _ in range(steps):
        train(untuned, 1)
    assert differing(local_weights(untuned), local_weights(model)) is None
    train(model, 70)
    expect_refusal("was called on this model before", lambda: second(wrapped()))


def second(model: torch.nn.Module) -> None:
    """Call autotune twice."""
    with autotune(model, max_steps=10_000):
        autotune(model)


def remembered() -> None:
    """A config that did not fit is void, by its reason, and the next job does not try it again."""
    for number in range(2):
        model = wrapped()
        options: dict[str, Any] = {"max_samples": 5, "warmup_steps": 3, "steps_per_sample": 3}
        with (
            patch.object(FsdpModel, "memory_watch", lambda self, *_: Room(self, -1)),
            patch.dict("os.environ", {"AUTOTUNE_CACHE": f"{LOG}.cache"}),
        ):
            tuner = autotune(model, log=f"{LOG}.limited{number}", **options)
            steps_until(tuner, model)
            tuner.close()  # waits until the run is kept
        dist.barrier()
        assert (0, 0, 0) == FsdpModel(model, passes_of(model)).in_force()


def refused() -> None:
    """Name untunable models, and the remedy."""
    plain = torch.nn.Linear(4, 4)
    expect_refusal("without FSDP2; call fully_shard() on it first", lambda: autotune(plain))
    expect_refusal("use ringtune.ddp.autotune", lambda: autotune(DistributedDataParallel(torch.nn.Linear(4, 4))))
    expect_refusal(
        "FSDP1", lambda: autotune(FullyShardedDataParallel(torch.nn.Linear(4, 4), device_id=torch.device("cpu")))
    )
    expect_refusal("allowed: more than 0", lambda: autotune(wrapped(), memory_limit_bytes=0))
    expect_refusal("allowed for this model: 0 to 5", lambda: apply(wrapped(), kept_modules=6))
    expect_refusal("allowed: None, 'as_set' or 1 to 4", lambda: apply(wrapped(), forward_prefetch=9))
    whole = Stack()
    fully_shard(whole)
    assert autotune(whole).is_finished
    still = wrapped().requires_grad_(False)
    assert autotune(still).is_finished
    other = wrapped(lambda: Stack(4 + (RANK == 1)))
    assert autotune(other).is_finished
    tight = wrapped()
    tuner = autotune(tight, memory_limit_bytes=1)
    train(tight, 8)
    assert tuner.is_finished


def only_forward() -> None:
    """A model that is evaluated alone takes no step, and keeps no rank from ending."""
    model = wrapped()
    with autotune(model) as tuner, torch.no_grad():
        for step in range(10):
            model(inputs_of(step))
        assert not tuner.is_finished


def two_meshes() -> None:
    """HSDP, and a number for reshard_after_forward, on four ranks.

    With a number FSDP2 keeps old weights itself where a pass stands between backward pass and optimizer: no evaluation.
    """
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    compare(lambda: wrapped(mesh=mesh))
    compare(lambda: wrapped(reshard_after_forward=2))


def stops_early() -> None:
    """Rank 1 is gone in the midst of it: rank 0's next pass fails, as without a tuner, and the job ends."""
    model = wrapped()
    autotune(model)
    if RANK == 1:
        train(model, 21)
        return
    try:
        train(model, 10_000)
    except RuntimeError as error:
        say(f"rank 0 lost it: {str(error).splitlines()[0]}")


def main() -> None:
    """Join the job and play the scenarios in their order."""
    torch.set_num_threads(1)
    expect_refusal("init_process_group", lambda: autotune(torch.nn.Linear(2, 2)))
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=RANK, world_size=WORLD)
    for name in sys.argv[4].split(","):
        globals()[name]()
        say(f"{name}: passed on rank {RANK}")
    gc.collect()  # a model that outlives its group can abort the interpreter's exit
    dist.destroy_process_group()


main()
