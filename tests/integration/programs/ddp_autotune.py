# SPDX-License-Identifier: Apache-2.0
"""One rank on torch's own Gloo, whose buckets change while it trains. Arguments: rank, file, scenarios, and a log."""

import copy
import gc
import math
import os
import resource
import sys
import time
import weakref
from itertools import count
from typing import Any
from unittest.mock import patch

import torch
from torch import distributed as dist
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from ringtune.ddp import DdpTuner, autotune
from ringtune.ddp import model as ddp_model
from ringtune.ddp.buckets import BucketSizes
from ringtune.ddp.reducers import Rebuild, bucket_sizes
from ringtune.errors import MismatchError
from ringtune.tuner.policy import continuous, watch
from ringtune.tuning.job import question
from ringtune.tuning.model.follower import RESTING_ROUND_STEPS, ROUND_STEPS
from ringtune.tuning.model.rounds import digest_of
from tests.integration import ddp_frozen
from tests.integration.ddp_switching import LIMIT_S, SIZES, bucket_bytes, compare, follow
from tests.integration.ddp_training import Branches, train, wrapped
from tests.integration.plain_rank import say

RANK, LOG = int(sys.argv[1]), sys.argv[4]


def same() -> None:
    """Every option of DDP trains as it does without changes."""
    compare("plain")
    compare("gradient_as_bucket_view", gradient_as_bucket_view=True)
    compare("static_graph", static_graph=True)
    compare("static_graph, unused", static_graph=True, uses=lambda *_: (0,))
    compare("find_unused_parameters", find_unused_parameters=True, uses=lambda step, _: ((0,), (0, 1), (1,))[step % 3])
    compare("fp16 hook", hook=fp16_compress_hook)
    compare("no_sync", passes=3)
    compare("no_sync, views", passes=3, gradient_as_bucket_view=True)
    # DDP itself wants the first backward pass of a static graph synchronised.
    compare("no_sync, static graph", passes=2, begins_with=1, static_graph=True, gradient_as_bucket_view=True)
    compare("no_sync, unused", passes=2, find_unused_parameters=True, uses=lambda step, number: ((step + number) % 2,))


def many() -> None:
    """A hundred changes leave no reducer, no hook and no memory behind."""
    model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(8))))
    calls: list[int] = []

    def hook(state: None, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        calls.append(bucket.index())
        return fp16_compress_hook(state, bucket)  # type: ignore[arg-type]

    model.register_comm_hook(None, hook)
    mine, exchange = follow(model)
    reducers = []
    used_kib = []
    for step in range(240):
        exchange.ask((30_000 + 2_000 * step, 50_000 - step))
        if step % ROUND_STEPS == 0:
            reducers.append(weakref.ref(model.reducer))
        if step in (59, 239):
            used_kib.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        model.zero_grad()
        model(torch.ones(2, 128)).sum().backward()
    assert mine._epoch >= 100, mine._epoch
    assert sum(reducer() is not None for reducer in reducers) <= 1
    assert used_kib[1] - used_kib[0] < 16_000, used_kib  # 90 reducers of two buckets of 0.5 MiB would be 90 MiB
    exchange.end()
    for _ in range(3 * ROUND_STEPS):
        model(torch.ones(2, 128)).sum().backward()
    calls.clear()
    model(torch.ones(2, 128)).sum().backward()
    assert len(calls) == len(bucket_bytes(model)) > 1, (calls, bucket_bytes(model))


def steps_until(
    tuner: DdpTuner,
    model: DistributedDataParallel,
    *,
    finished: bool = True,
    delay_s: float = 0.0,
    doubled_every: float = math.inf,
) -> int:
    """Train until the tuner has finished, or has not; return the number of steps, which is the same on every rank.

    Each step is delayed by `delay_s`, which is doubled after every `doubled_every` steps.
    """
    end_s = time.monotonic() + LIMIT_S
    for step in count(1):
        time.sleep(delay_s * 2 ** (step // doubled_every))
        train(model, 1)
        if tuner.is_finished is finished:
            return step
        assert time.monotonic() < end_s, (step, tuner.is_finished)
    raise AssertionError


def tuned() -> None:
    """The tuner comes to its end while the loop stays as it is."""
    model = wrapped()
    tuner = autotune(model, log=LOG, max_samples=3, warmup_steps=5, steps_per_sample=5)
    steps = steps_until(tuner, model)
    assert tuner.is_finished
    assert (tuner.result is not None) == (RANK == 0)
    if tuner.result is not None:
        assert tuner.result.is_complete, tuner.result
        assert BucketSizes.from_config(tuner.result.config) == bucket_sizes(model), (tuner.result, tuner.config)
    decided = bucket_sizes(model)
    tuner.close()
    train(model, 3 * RESTING_ROUND_STEPS)
    assert tuner.is_finished
    assert decided == bucket_sizes(model)
    assert [] == [hook for hook in model._forward_pre_hooks.values() if "before" in str(hook)]
    say(f"ended after {steps} steps with {dict(tuner.config or {})}")


def watched() -> None:
    """Ask the question anew where steps have become slower, and answer it after the same steps everywhere."""
    model = wrapped()
    with (
        patch.object(watch, "LOOK_EVERY_S", 0.01),
        patch.object(continuous, "BACK_OFF_S", 0.0),
        autotune(model, log=f"{LOG}.watched", max_samples=3, warmup_steps=5, steps_per_sample=5) as tuner,
    ):
        answered = steps_until(tuner, model)
        train(model, 800)  # what is usual now
        # A noisy machine may have had the question asked before, so that the delay itself is what is usual: it grows.
        doubt = steps_until(tuner, model, finished=False, delay_s=0.02, doubled_every=800)
        again = steps_until(tuner, model, delay_s=0.02)
        say(f"answered after {answered} steps, asked after {doubt}, answered after {again}: {dict(tuner.config or {})}")


def remembered() -> None:
    """Begin the next job of the same model with the findings of this one."""
    for number in range(2):
        model = wrapped()
        with patch.dict(os.environ, {"AUTOTUNE_CACHE": f"{LOG}.cache", "RINGTUNE_LOG_LEVEL": "info"}):
            tuner = autotune(model, max_samples=5, warmup_steps=5, steps_per_sample=5)
            steps_until(tuner, model)
        assert tuner.is_finished, number
        tuner.close()  # waits until the run is kept
        dist.barrier()


def stops_early() -> None:
    """Rank 1 is gone in the midst of it: rank 0's next backward pass fails, as without a tuner, and the job ends."""
    model = wrapped()
    autotune(model)
    if RANK == 1:
        train(model, 21)
        return
    try:
        train(model, 10_000)
    except RuntimeError as error:
        say(f"rank 0 lost it: {str(error).splitlines()[0]}")


def raises_in_training() -> None:
    """An error of the training loop ends the process; no thread of the tuner keeps it."""
    model = wrapped()
    with autotune(model):
        train(model, 9)
        raise SystemExit(7)


def ends_before_the_tuner() -> None:
    """A job that is over does not wait for its tuner, and need not close it."""
    model = wrapped()
    autotune(model, log=LOG)
    train(model, 31)
    del model
    gc.collect()  # as in `main`
    dist.destroy_process_group()


def failing() -> None:
    """A tuner that raises costs a line, and the buckets stay."""

    def broken(*_: object) -> Any:
        raise ValueError("a broken designer")

    model = wrapped()
    with patch.object(question, "make_designer", broken):
        tuner = autotune(model)
        steps = steps_until(tuner, model)
    assert tuner.is_finished
    assert tuner.result is None
    train(model, 5)
    say(f"the broken tuner ended after {steps} steps")


def closed() -> None:
    """After an early close the buckets become the first ones, on all ranks, and training goes on."""
    model = wrapped()
    first = bucket_sizes(model)
    with autotune(model, warmup_steps=0, steps_per_sample=3, max_samples=200) as tuner:
        end_s = time.monotonic() + LIMIT_S
        while bucket_sizes(model) == first:
            assert time.monotonic() < end_s
            train(model, 1)
    train(model, 6 * ROUND_STEPS)
    assert tuner.is_finished
    assert bucket_sizes(model) == first, (first, bucket_sizes(model))
    assert tuner.result is None or not tuner.result.is_complete


def refused() -> None:
    """Name untunable models, and train."""
    compressed, built_in = wrapped(), wrapped()
    compressed.register_comm_hook(PowerSGDState(None), powerSGD_hook)
    built_in._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)  # type: ignore[attr-defined]
    for model in (compressed, built_in):
        tuner = autotune(model)
        assert tuner.is_finished
        assert tuner.result is None
        train(model, 3)
    late = wrapped()
    tuner = autotune(late)
    late.register_comm_hook(PowerSGDState(None), powerSGD_hook)
    ends = [tuner.is_finished for step in range(6) if train(late, 2)]
    assert ends == sorted(ends), ends
    assert (ends[0], ends[-1]) == (False, True), ends
    accepted = autotune(wrapped(), accept_hook=True)
    assert not accepted.is_finished
    accepted.close()
    off = autotune(wrapped(), log="/nowhere/at/all.jsonl" if RANK == 0 else None)
    assert off.is_finished
    other = autotune(wrapped(bucket_cap_mb=0.01 + 0.01 * RANK))
    assert other.is_finished


def uneven() -> None:
    """Inside join() the tuner leaves, and uneven inputs train on."""
    model = wrapped()
    tuner = autotune(model)
    train(model, 9)
    with model.join():
        train(model, 4 + 3 * RANK)
    assert tuner.is_finished


def disagreeing() -> None:
    """A rank that cannot change keeps all from it; ranks that would differ, or have lost step, raise."""
    model = wrapped()
    before = bucket_sizes(model)
    mine, exchange = follow(model)
    exchange.ask(SIZES[0].words())
    with patch.object(ddp_model, "Rebuild", broken_rebuild if RANK == 1 else Rebuild):
        train(model, 12)
    assert mine.is_over
    assert bucket_sizes(model) == before
    train(model, 3)
    with patch.object(ddp_model, "digest_of", lambda *arguments: digest_of(*arguments) + RANK):
        expect_mismatch("hash", wrapped())
    expect_mismatch("steps", wrapped(), step=RANK * ROUND_STEPS)


def broken_rebuild(*_: object) -> Rebuild:
    """Stand for a rank without memory for other buckets."""
    raise RuntimeError("no memory on this rank")


def expect_mismatch(word: str, model: DistributedDataParallel, step: int = 0) -> None:
    """Training raises on every rank before any bucket has changed."""
    before = bucket_sizes(model)
    mine, exchange = follow(model)
    mine._step = step
    exchange.ask(SIZES[0].words())
    text = ""
    try:
        train(model, 12)
    except MismatchError as error:
        text = str(error)
    assert word in text, text
    assert bucket_sizes(model) == before


def copied() -> None:
    """A copy of the model is not tuned, and can be made while the model is."""
    model = wrapped()
    with autotune(model) as tuner:
        train(model, 3)
        other = copy.deepcopy(model)
        train(other, 8)
        train(model, 5)
        assert not tuner.is_finished


def nothing() -> None:
    """A model of one parameter, and one in a group of its own, have no tunable knob."""
    for model in (
        DistributedDataParallel(torch.nn.Linear(4, 4, bias=False)),
        DistributedDataParallel(Branches(), process_group=[dist.new_group([rank]) for rank in range(2)][RANK]),
    ):
        tuner = autotune(model)
        assert tuner.is_finished


def main() -> None:
    """Join the job and play the scenarios in their order."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=RANK, world_size=2)
    scenarios = {**vars(ddp_frozen), **globals()}
    for name in sys.argv[3].split(","):
        scenarios[name]()
        say(f"{name}: passed on rank {RANK}")
    if dist.is_initialized():
        gc.collect()  # a model that outlives its group can abort the interpreter's exit
        dist.destroy_process_group()


main()
