# SPDX-License-Identifier: Apache-2.0
"""The engine's knobs as a `TuningJob`: the search space follows from the world as it is, once steps are marked."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ringtune import _engine
from ringtune.errors import RingtuneError
from ringtune.identity.fingerprints import TARGET_NAME, hardware_facts, hardware_fingerprint, study_key
from ringtune.identity.gradient_set import Signature
from ringtune.tuner import Prior, Question, Result, SearchSpace, SpaceError, Trial, search_space, tunable_names
from ringtune.tuner.policy.unasked import BEGINS_AFTER_S, UNASKED_POLICY
from ringtune.tuner.space.parameters import WIRE, can_skew, goes_by_host
from ringtune.tuning.job.memory import Memory
from ringtune.tuning.job.question import JobIdentity, question_of, run_settings
from ringtune.tuning.job.tuning_end import TuningEnd
from ringtune.tuning.job.waiting import Standby
from ringtune.version import __version__
from ringtune.world.world import World

from .cost_prior import job_prior
from .ddp_buckets import DdpBuckets
from .target import EngineTarget

MARKER_LIMIT_S = 300.0
"""Seconds without a marked step after the first allreduce, after which people are warned; a first step compiles."""
MARKER_LIMIT_ROUNDS = 10
"""Rounds of the same tensors without a marked step, after which people are warned earlier.

A step may have more than one: gradients that are accumulated, and synchronised each time.
"""
FULL_REQUESTS = 2
"""Requests of a tensor by its full signature; each further one is counted as cached."""
MARKER_POLL_S = 0.2
LINKS_POLL_S = 0.05
LINKS_LIMIT_S = 60.0
"""Longest wait for a measurement of the links, seconds: some 0.4 s for each of five meetings of a host."""


class MarkerWatch:
    """Decides when to warn that no step is marked: once, after many rounds of the same tensors or a long time.

    Allreduces alone mark no step: a single step of a large model has thousands. Tensors without a name, or without the
    response cache, are not known to be the same; for them the time decides.
    """

    def __init__(self) -> None:
        """Begin before the first collective."""
        self._since_s: float | None = None
        self._has_warned = False

    def look(self, counters: Mapping[str, int], now_s: float) -> str | None:
        """Return the warning when it is due; `now_s` is on the monotonic clock."""
        collectives = sum(count for name, count in counters.items() if name.startswith("algorithm."))
        if self._has_warned or collectives == 0:
            return None
        self._since_s = now_s if self._since_s is None else self._since_s
        rounds, elapsed_s = _rounds(counters), now_s - self._since_s
        if rounds < MARKER_LIMIT_ROUNDS and elapsed_s < MARKER_LIMIT_S:
            return None
        self._has_warned = True
        seen = f"{rounds} rounds of the same tensors" if rounds >= MARKER_LIMIT_ROUNDS else f"{elapsed_s:.0f} s"
        return (
            f"AUTOTUNE=1, but no step was marked in {seen}: the tuner is off until a step is marked; use "
            "DistributedOptimizer, or call ringtune.mark_step() after each step"
        )


def _rounds(counters: Mapping[str, int]) -> int:
    """Return how often the same tensors have come, at least; 0 while none has come often enough to be cached."""
    full, cached = counters.get("full_requests", 0), counters.get("cached_requests", 0)
    return FULL_REQUESTS + FULL_REQUESTS * cached // full if full and cached else 0


class EngineJob:
    """See `ringtune.tuning.job.thread.TuningJob`."""

    def __init__(self, world: World, memory: Memory, closing: TuningEnd) -> None:
        """Stand before a world.

        Args:
            world: Rank 0's.
            memory: Finished runs of this machine.
            closing: Set when the job ends.
        """
        self._world = world
        self._memory = memory
        self._closing = closing

    def begin(self, warn: Callable[[str], None]) -> bool:
        """Look for knobs that can act, once a step was marked."""
        buckets = DdpBuckets(self._world.gradient_set.bucket_bytes)
        try:
            space = self._space(buckets)
        except SpaceError as error:
            warn(f"the tuner stays off: {error}")
            return False
        if space.free and buckets.note:
            warn(buckets.note)
        return True

    def question(self, earlier: Sequence[Trial]) -> Question:
        """Return the target, budget and designer of a search in the job as it is now; see `TuningJob`."""
        world = self._world
        buckets = DdpBuckets(world.gradient_set.bucket_bytes)
        if not world.settings.is_unasked:  # all ranks stop for seconds, which is more than such a search may cost
            measure_links(world, self._closing)
        space = self._space(buckets)
        settings = run_settings(world.settings, self._identity(), space, is_first=not earlier)
        if world.settings.is_unasked:
            settings = replace(settings, policy=UNASKED_POLICY)
        if buckets.sizes:
            settings = replace(settings, nothing_to_tune=buckets.nothing_to_tune)
        return question_of(self._target(space), settings, self._memory, earlier, self._cost_model(buckets))

    def standby(self) -> Standby:
        """Return the job's target and key for training while another job tunes."""
        space = self._space(DdpBuckets(self._world.gradient_set.bucket_bytes))
        return Standby(self._target(space), self._identity().key)

    def rest(self, seconds: float) -> None:
        """Wait, less when the job ends."""
        self._closing.wait(seconds)

    def decided(self, result: Result) -> None:
        """Ignore it: the engine is under the config that was decided on."""

    def ended(self) -> None:
        """Ignore it: the engine keeps its config."""

    def wait_for_steps(self) -> bool:
        """Return whether a step was marked; false at the end of the job. Without a marker warn once, and wait on.

        A tuner that was not asked for waits for `BEGINS_AFTER_S` more, and without a warning.
        """
        watch, is_unasked = MarkerWatch(), self._world.settings.is_unasked
        # DDP makes its buckets anew after the first step.
        unsettled_steps = 1 if self._world.gradient_set.bucket_bytes else 0
        while not self._closing.wait(MARKER_POLL_S):
            try:
                counters = self._world.engine.counters()
            except RingtuneError:
                return False
            if counters["steps"] > unsettled_steps:
                return not (is_unasked and self._closing.wait(BEGINS_AFTER_S))
            is_quiet = is_unasked or self._world.engine.round_of_calls() is not None  # calls may become steps
            text = None if is_quiet else watch.look(counters, time.monotonic())
            if text is not None:
                self._world.console.warning(text)
        return False

    def _target(self, space: SearchSpace) -> EngineTarget:
        return EngineTarget(self._world.engine, space, self._world.settings.baseline, self._closing)

    def _cost_model(self, buckets: DdpBuckets) -> list[Prior]:
        """Return the cost model, where gradients come one by one as it supposes."""
        world = self._world
        prior = job_prior(
            world.gradient_set.counts(),
            world.layout.ranks_per_host,
            world.calls,
            is_hierarchical=goes_by_host(world.settings.baseline, world.layout.ranks_per_host),
            link_rates=world.engine.host_rates()[0],
        )
        return [] if prior is None or buckets.sizes else [prior]

    def _space(self, buckets: DdpBuckets) -> SearchSpace:
        return engine_space(self._world, buckets)

    def _identity(self) -> JobIdentity:
        calls = Counter((dtype, tuple(shape)) for dtype, shape in self._world.engine.round_of_calls() or ())
        return identity_in(self._world, self._world.gradient_set.counts() or calls, TARGET_NAME)


def measure_links(world: World, closing: threading.Event) -> None:
    """Let all ranks measure the links of their hosts where `skew` can act, and wait for the rates.

    Shares follow the new rates at once, before the search that tests them.

    Args:
        world: Rank 0's.
        closing: Set when the job ends, which ends the wait.
    """
    if not can_skew(world.layout.ranks_per_host) or world.engine.counters().get("nccl_responses", 0) > 0:
        return
    before, end_s = world.engine.host_rates(), time.monotonic() + LINKS_LIMIT_S
    world.engine.measure_host_rates()
    while (rates := world.engine.host_rates()) == before and time.monotonic() < end_s:
        if closing.wait(LINKS_POLL_S):
            return
    shown = ", ".join(f"{rate / 1e6:.3g}" for rate in rates[0])
    world.console.info(f"the links of the hosts carry {shown} MB/s")


def engine_space(world: World, buckets: DdpBuckets) -> SearchSpace:
    """Return the legal configs of a world's engine, for the steps seen so far."""
    counters = world.engine.counters()
    names = tunable_names(
        world.layout.ranks_per_host,
        has_allgathers=counters.get("allgathers", 0) > 0,
        is_on_nccl=counters.get("nccl_responses", 0) > 0,
        has_lanes=world.carrier != "mpi" and not world.settings.is_unasked,
        has_uneven_links=world.engine.host_rates()[2],
        may_round=WIRE in world.settings.allowed,
    )
    tuned = buckets.tunable(names)
    algorithms = _engine.allreduce_algorithms()
    return search_space(world.settings.fixed, world.settings.baseline, tuned=tuned, algorithms=algorithms)


def identity_in(world: World, counts: Mapping[Signature, int], target_name: str) -> JobIdentity:
    """Return the identity of a job in a world, with these gradients in a step and this target."""
    ranks_per_host = world.layout.ranks_per_host
    facts = hardware_facts(world.machines, world.carrier, is_on_gpus=world.gradient_set.gpu is not None)
    fingerprint = hardware_fingerprint(facts, world.settings.hardware)
    key = study_key(counts, ranks_per_host, fingerprint, target_name)
    return JobIdentity(key, ranks_per_host, facts, {"ringtune": __version__})
