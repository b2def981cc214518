# SPDX-License-Identifier: Apache-2.0
"""Wiring of the tuner: the engine as its target, a thread of rank 0 for its policy, the log, and the display.

Everything that can be wrong with the settings is found before training starts (`Autotune.prepare`). After that
nothing here raises into training, and nothing runs on its threads.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ringtune import __version__, _engine
from ringtune.errors import ConfigError, RingtuneError
from ringtune.tuner import (
    DEFAULT_DESIGNER,
    ContinuousTuning,
    KeepingLog,
    Prior,
    Question,
    Result,
    RunSettings,
    SearchSpace,
    SpaceError,
    Trial,
    find_unfinished,
    load_designer,
    make_designer,
    open_log,
    search_space,
    study_of,
    tunable_names,
)

from .console import Console
from .ddp_buckets import DdpBuckets
from .engine_target import EngineTarget
from .fingerprints import hardware_facts, hardware_fingerprint, study_key
from .job_costs import gradient_bytes, job_prior
from .job_labels import job_labels
from .memory import Memory
from .metrics.tuner_facts import TunerFacts
from .observers import Observers
from .progress import TuningDisplay
from .service_link import Job, NoService, ServiceLink, service_link
from .settings import Settings
from .timely_files import START_LIMIT_S, within
from .tuning_callbacks import CallbackObserver, Moment, RegisteredCallbacks
from .tuning_trace import TracedTuning
from .world import World

MARKER_LIMIT_S = 30.0
MARKER_LIMIT_COLLECTIVES = 200
MARKER_POLL_S = 0.2
STOP_LIMIT_S = 2.0  # how long the end of the job waits for the tuner's last words


class Autotune:
    """The tuner of one job, on rank 0: `prepare()`, `start()`, `stop()`. Used from the main thread.

    Attributes:
        facts: What the tuner has done; readable from any thread.
    """

    def __init__(self, cache_folder: Path, callbacks: RegisteredCallbacks) -> None:
        """Begin without a log.

        Args:
            cache_folder: What is learned is kept in a file there, unless a setting says otherwise.
            callbacks: The user's, which are told of the tuner's work.
        """
        self.facts = TunerFacts()
        self._callbacks = callbacks
        self._cache_folder = cache_folder
        self._log: KeepingLog | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._link: ServiceLink = NoService()

    def prepare(self, settings: Settings) -> None:
        """Open the log and load the designer, before the ranks meet.

        Raises:
            ConfigError: If the log cannot be written, or the service's URL or token is malformed.
        """
        if not settings.autotune:
            return
        console = Console(0, settings.log_level)
        self._link = service_link(settings.service_url, settings.service_token, self._cache_folder, console)
        try:
            self._log = KeepingLog(within(START_LIMIT_S, partial(open_log, settings.autotune_log)))
        except OSError as error:
            raise ConfigError(
                f"AUTOTUNE_LOG={settings.autotune_log!r} cannot be written: {error.strerror or error}; choose a file "
                "in a folder that exists and is yours"
            ) from error
        try:
            load_designer(DEFAULT_DESIGNER)
        except ImportError:  # the tuning run meets it again, says so, and keeps the config
            return

    def start(self, world: World) -> None:
        """Start the tuning thread on rank 0, if the tuner is on."""
        if self._log is None or world.rank != 0:
            return
        memory = Memory.of(world.settings.autotune_cache, self._cache_folder, world.console)
        job = _TuningJob(
            world,
            self._log,
            memory,
            self._link,
            callbacks=self._callbacks,
            facts=self.facts,
            closing=self._closing,
        )
        self._thread = threading.Thread(target=job.run, name="ringtune-tuning", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End tuning and close the log; a tuner that is deep in thought is left behind. Never raises."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(STOP_LIMIT_S)
            self._link.close()
            if self._thread.is_alive():
                return
        if self._log is not None:
            self._log.close()
            self._log = None


class _MarkerWatch:
    """Decides when to say that nobody marks steps: once, after a while or many collectives."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._has_said = False

    def look(self, counters: Mapping[str, int], now_s: float) -> str | None:
        """Return the warning when it is due; `now_s` is on the monotonic clock."""
        collectives = sum(count for name, count in counters.items() if name.startswith("algorithm."))
        if self._has_said or collectives == 0:
            return None
        self._since_s = now_s if self._since_s is None else self._since_s
        if collectives < MARKER_LIMIT_COLLECTIVES and now_s - self._since_s < MARKER_LIMIT_S:
            return None
        self._has_said = True
        return (
            f"AUTOTUNE=1, but no step was marked in {collectives} allreduces: the tuner stays off; use "
            "DistributedOptimizer, or call ringtune.mark_step() after each step"
        )


class _TuningJob:
    """What the tuning thread does: wait for steps, then tune, then watch."""

    def __init__(
        self,
        world: World,
        log: KeepingLog,
        memory: Memory,
        link: ServiceLink,
        *,
        callbacks: RegisteredCallbacks,
        facts: TunerFacts,
        closing: threading.Event,
    ) -> None:
        self._world = world
        self._log = log
        self._memory = memory
        self._link = link
        self._callbacks = callbacks
        self._facts = facts
        self._closing = closing

    def run(self) -> None:
        try:
            if self._wait_for_steps():
                self._tune()
        except Exception as error:  # noqa: BLE001  (tuning never fails training)
            self._world.console.warning(f"the tuner failed and stays off: {error!r}; training goes on")
        finally:
            self._tell(is_finished=True)
            self._log.close()  # `Autotune.stop` does not wait for one that is deep in thought

    def _wait_for_steps(self) -> bool:
        """Return whether a step was marked; false at the end of the job. Without a marker say so once, and wait on."""
        watch = _MarkerWatch()
        while not self._closing.wait(MARKER_POLL_S):
            try:
                counters = self._world.engine.counters()
            except RingtuneError:
                return False
            if counters["steps"] > self._unsettled_steps():
                return True
            text = watch.look(counters, time.monotonic())
            if text is not None:
                self._world.console.warning(text)
        return False

    def _unsettled_steps(self) -> int:
        """Return how many steps say nothing about later ones: DDP makes its buckets anew after the first."""
        return 1 if self._world.gradient_set.bucket_bytes else 0

    def _tune(self) -> None:
        warn = self._world.console.warning
        with (
            closing(TuningDisplay(self._world.settings.autotune_log)) as display,
            closing(CallbackObserver(self._callbacks, self._moment, warn)) as callbacks,
        ):
            observer = Observers([TracedTuning(display, self._world.engine), self._facts, callbacks], warn)
            buckets = DdpBuckets(self._world.gradient_set.bucket_bytes)
            try:
                space = self._space(buckets)
            except SpaceError as error:
                observer.warned(f"the tuner stays off: {error}")
                return
            if space.free and buckets.note:
                observer.warned(buckets.note)
            log = self._facts.reading(self._link.reporting(self._log))
            ContinuousTuning(
                self._question,
                log,
                observer,
                rest=self._closing.wait,
                on_decision=self._keep,
                is_over=self._closing.is_set,
            ).run()

    def _moment(self) -> Moment:
        step_s = self._facts.state().run.step_s
        return Moment(self._world.engine.counters()["steps"], None if step_s is None else step_s * 1e3)

    def _tell(self, *, is_finished: bool) -> None:
        """Let all ranks know; a world that is over needs not."""
        with suppress(RingtuneError):
            self._world.engine.tell_tuning(is_finished)

    def _keep(self, _: Result) -> None:
        self._tell(is_finished=True)
        self._memory.keep(self._log.finished_run())

    def _question(self, earlier: Sequence[Trial]) -> Question:
        """Ask what to search for in the job as it is now; `earlier` are the trials of its search before."""
        self._tell(is_finished=False)
        world = self._world
        settings = world.settings
        buckets = DdpBuckets(world.gradient_set.bucket_bytes)
        space = self._space(buckets)
        run_settings = _run_settings(world, space, is_first=not earlier)
        if buckets.sizes:
            run_settings = replace(run_settings, nothing_to_tune=buckets.nothing_to_tune)
        models = self._cost_model(buckets)
        learned: Sequence[Prior] = study_of(space, earlier, settings.seed)
        learned = learned or self._memory.priors(run_settings.key, space, settings.seed, models)
        designer = make_designer(DEFAULT_DESIGNER, space, settings.seed, [*learned, *models])
        if not earlier:
            gradients = gradient_bytes(world.gradient_set.counts())
            designer = self._link.with_start(designer, Job(run_settings, space, gradients))
        target = EngineTarget(world.engine, space, settings.baseline, self._closing)
        return Question(target, designer, run_settings)

    def _cost_model(self, buckets: DdpBuckets) -> list[Prior]:
        """Return the cost model, where gradients come one by one as it supposes."""
        world = self._world
        prior = job_prior(
            world.gradient_set.counts(),
            world.layout.ranks_per_host,
            world.calls,
            is_hierarchical=bool(world.settings.baseline["hierarchical_allreduce"]),
        )
        return [] if prior is None or buckets.sizes else [prior]

    def _space(self, buckets: DdpBuckets) -> SearchSpace:
        """Return what may be tuned in this world, for the steps seen so far."""
        world = self._world
        has_allgathers = world.engine.counters().get("allgathers", 0) > 0
        tuned = buckets.tunable(tunable_names(world.layout.ranks_per_host, has_allgathers=has_allgathers))
        algorithms = _engine.allreduce_algorithms()
        return search_space(world.settings.fixed, world.settings.baseline, tuned=tuned, algorithms=algorithms)


def _run_settings(world: World, space: SearchSpace, *, is_first: bool) -> RunSettings:
    settings = world.settings
    ranks_per_host = world.layout.ranks_per_host
    facts = hardware_facts(world.machines, world.carrier, is_on_gpus=world.gradient_set.gpu is not None)
    key = study_key(world.gradient_set.counts(), ranks_per_host, hardware_fingerprint(facts, settings.hardware))
    unfinished = find_unfinished(settings.autotune_log, key, space.to_json(), settings.seed) if is_first else ()
    return RunSettings(
        **settings.limits._asdict(),
        warmup_steps=settings.warmup_steps,
        steps_per_sample=settings.steps_per_sample,
        seed=settings.seed,
        key=key,
        model_name=settings.autotune_model,
        labels=job_labels(settings, facts),
        layout={"ranks_per_host": list(ranks_per_host)},
        versions={"ringtune": __version__},
        prior_trials=unfinished,
    )
