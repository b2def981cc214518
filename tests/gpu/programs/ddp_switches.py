# SPDX-License-Identifier: Apache-2.0
"""One rank whose buckets change while it trains on a GPU. Arguments: rank, ranks, store, device, backend.

Each scenario is a function; its findings are among the figures. The memory of old buckets is written over as soon as
the allocator gives it away: whoever still reads it gets other gradients.
"""

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import FileStore  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from ringtune.ddp import autotune
from ringtune.ddp.buckets import BucketSizes
from ringtune.ddp.model import DdpModel
from ringtune.ddp.reduced_parameters import ReducedParameters
from ringtune.ddp.reducers import bucket_sizes
from ringtune.ddp.static_graph import StaticGraph
from ringtune.ddp.steps import StepsOfModel
from ringtune.tuning.job.windows import StepEnd
from ringtune.tuning.model.control import ControlGroup
from ringtune.tuning.model.exchange import Exchange
from ringtune.tuning.model.follower import ROUND_STEPS, Follower, FollowerLinks
from ringtune.tuning.model.forward_pass import is_captured
from ringtune.tuning.model.step_clock import DeviceSteps, clock_for
from tests.gpu.torch_ranks import say_figures

WIDTH, STEPS = 256, 24
SIZES = [BucketSizes(300_000, 300_000), BucketSizes(4_000_000, 40_000), BucketSizes(1_000, 1_000)]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "views": {"gradient_as_bucket_view": True},
    "static": {"static_graph": True},
    "unused": {"find_unused_parameters": True},
}
AHEAD = 8
"""Steps that the host launches before it waits for the device."""
SLEEP_CYCLES = 40_000_000  # 20 ms and more: far longer than the host needs to launch a step
CALLS = 2000

Scenario = Callable[[torch.device], dict[str, Any]]


def make_model(device: torch.device, **options: Any) -> DistributedDataParallel:
    """Return a model of several buckets, equal in every call."""
    torch.manual_seed(3)
    layers = [part for _ in range(6) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
    return DistributedDataParallel(torch.nn.Sequential(*layers).to(device), bucket_cap_mb=0.5, **options)


def follow(model: DistributedDataParallel) -> tuple[Follower, Exchange, list[str]]:
    """Follow a model without a tuner; the caller makes the wishes and reads the warnings."""
    exchange, warnings = Exchange(bucket_sizes(model).words()), list[str]()
    links = FollowerLinks(exchange, clock_for(model.device), warnings.append)
    follower = Follower(ControlGroup(model.process_group, 60.0), DdpModel(model), links)
    follower.follow()
    return follower, exchange, warnings


def gradients(model: DistributedDataParallel, stream: Any, before: Callable[[int], None]) -> list[torch.Tensor]:
    """Train some steps on a stream, and return all gradients."""
    found: list[torch.Tensor] = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if stream is not None:
        stream.wait_stream(torch.cuda.current_stream(model.device))
    with nullcontext() if stream is None else torch.cuda.stream(stream):
        for step in range(STEPS):
            before(step)
            inputs = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(step)).to(model.device)
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            found += [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
            optimizer.step()
    if stream is not None:
        torch.cuda.current_stream(model.device).wait_stream(stream)
    return found


def poison(device: torch.device) -> None:
    """Write over the memory that the allocator has given away, on the current stream and on the default one."""
    if device.type == "cuda":
        for stream in (torch.cuda.current_stream(device), torch.cuda.default_stream(device)):
            with torch.cuda.stream(stream):
                for size in (300_000, 75_000, 20_000):  # of the buckets, in elements
                    torch.full((size,), float("nan"), device=device)


def bits(device: torch.device) -> dict[str, Any]:
    """Compare gradients with and without changes of the buckets, on the default stream and on another."""
    differing = []
    streams = [None, torch.cuda.Stream(device)] if device.type == "cuda" else [None]
    for name, options in OPTIONS.items():
        for number, stream in enumerate(streams):
            wanted = gradients(make_model(device, **options), stream, lambda _: None)
            model = make_model(device, **options)
            follower, exchange, warnings = follow(model)

            def change(step: int, exchange: Exchange = exchange) -> None:
                poison(device)
                if step % (2 * ROUND_STEPS) == 0:
                    exchange.ask(SIZES[step // (2 * ROUND_STEPS) % len(SIZES)].words())

            found = gradients(model, stream, change)
            if len(found) != len(wanted) or not all(map(torch.equal, wanted, found)):
                differing.append(f"{name}, stream {number}")
            assert not warnings, warnings
            assert follower.words != (int(0.5 * 2**20), int(0.5 * 2**20)), "nothing was changed"
            exchange.end()
    return {"differing": differing}


def windows(device: torch.device) -> dict[str, Any]:
    """Let the host run ahead of a device that takes the same time for each step, and compare the clocks."""
    model = make_model(device)
    _, exchange, _ = follow(model)
    inputs = torch.randn(8, WIDTH, device=device)
    host_ms, events, ends = [], [], list[StepEnd]()
    for step in range(12 * AHEAD):
        host_ms.append(time.monotonic() * 1e3)
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()
        model.zero_grad()
        model(inputs).square().mean().backward()
        torch.cuda._sleep(SLEEP_CYCLES)
        if step % AHEAD == AHEAD - 1:
            torch.cuda.synchronize(device)
        while not exchange._ends.empty():
            ends.append(exchange._ends.get_nowait())
    warm = 2 * AHEAD
    own = [events[warm + k].elapsed_time(events[warm + k + 1]) for k in range(len(events) - warm - 1)]
    seen = [(later.end_s - earlier.end_s) * 1e3 for earlier, later in pairwise(ends[warm:])]
    return {
        "device_ms": median(own),
        "window_ms": median(seen),
        "host_ms": median(later - earlier for earlier, later in pairwise(host_ms[warm:])),
        "ends": len(ends),
    }


def cost(device: torch.device) -> dict[str, Any]:
    """Measure the host's time for the end of a step."""
    clock = clock_for(device)
    assert isinstance(clock, DeviceSteps)
    taken_us, known = [], 0
    for step in range(CALLS):
        begin_s = time.perf_counter()
        known += len(clock.mark(step, 0))
        taken_us.append((time.perf_counter() - begin_s) * 1e6)
    torch.cuda.synchronize(device)
    ordered = sorted(taken_us[CALLS // 10 :])
    return {"median_us": ordered[len(ordered) // 2], "p99_us": ordered[len(ordered) * 99 // 100], "known": known}


def captured(device: torch.device) -> dict[str, Any]:
    """Capture the beginning of a step into a CUDA graph: tuning ends with a sentence."""
    model = make_model(device)
    follower, _, warnings = follow(model)
    graph, seen = torch.cuda.CUDAGraph(), []
    before = is_captured(device)
    with torch.cuda.graph(graph):
        seen.append(is_captured(device))
        StepsOfModel(follower, StaticGraph(ReducedParameters.of(model))).before_forward(model)
    return {"is_captured": [before, *seen, is_captured(device)], "is_over": follower.is_over, "warnings": warnings}


def alone(device: torch.device) -> dict[str, Any]:
    """Tune one rank alone: the verdict says that there is no tunable communication."""
    with autotune(make_model(device)) as tuner:
        return {"verdict": None if tuner.result is None else tuner.result.verdict}


def main() -> None:
    """Play all scenarios that the device can play."""
    rank, ranks, store, kind, backend = sys.argv[1:]
    device = torch.device(kind, 0) if kind == "cuda" else torch.device(kind)
    torch.set_num_threads(1)
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, store=FileStore(store, int(ranks)), rank=int(rank), world_size=int(ranks))
    on_gpu: tuple[Scenario, ...] = (windows, cost, captured) if kind == "cuda" else ()
    say_figures({scenario.__name__: scenario(device) for scenario in (bits, alone, *on_gpu)})
    dist.destroy_process_group()


main()
