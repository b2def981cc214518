# SPDX-License-Identifier: Apache-2.0
"""`autotune(model)`: brings the ranks together, follows the model on each of them, and starts the tuner on rank 0.

A mistake in the call or in a setting is an error. Any other obstacle keeps the tuner off on all ranks alike: rank 0
shows the reason, and training goes on as it would without it.
"""

import atexit
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import final

from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ringtune.bootstrap import environment
from ringtune.cache_files import user_cache_folder
from ringtune.console import Console
from ringtune.errors import ConfigError
from ringtune.fingerprints import model_fingerprint
from ringtune.settings import Settings, find_slips
from ringtune.tuner import (
    DEFAULT_DESIGNER,
    Config,
    Result,
    TuningLog,
    load_designer,
    open_log,
)
from ringtune.tuning.display import TuningDisplay
from ringtune.tuning.memory import Memory
from ringtune.tuning.thread import Surroundings, TuningThread

from .buckets import bucket_space
from .control import ControlGroup, ControlLost
from .follower import Follower
from .introductions import Company, Introduction
from .job import BucketPlan, DdpJob
from .reducers import bucket_sizes, find_objection, gradient_bytes, gradient_counts, reduced_parameters
from .step_clock import clock_for
from .target import Exchange

SETTINGS = (
    "AUTOTUNE",
    "AUTOTUNE_LOG",
    "AUTOTUNE_MODEL",
    "AUTOTUNE_JOB_NAME",
    "AUTOTUNE_TAGS",
    "AUTOTUNE_COMMIT",
    "AUTOTUNE_CACHE",
    "AUTOTUNE_MAX_SAMPLES",
    "AUTOTUNE_MAX_STEPS",
    "AUTOTUNE_MAX_SECONDS",
    "AUTOTUNE_WARMUP_STEPS",
    "AUTOTUNE_STEPS_PER_SAMPLE",
    "AUTOTUNE_SEED",
    "RINGTUNE_LOG_LEVEL",
    "RINGTUNE_TIMEOUT_S",
    "RINGTUNE_HARDWARE",
    "RINGTUNE_HARDWARE_NAME",
)
"""Variables of the environment that have a meaning here; the others are the engine's."""
TURNED_OFF = "AUTOTUNE=0"


def autotune(
    model: DistributedDataParallel,
    *,
    log: str | os.PathLike[str] | None = None,
    max_samples: int | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    warmup_steps: int | None = None,
    steps_per_sample: int | None = None,
    seed: int | None = None,
    model_name: str | None = None,
    accept_hook: bool = False,
) -> "DdpTuner":
    """Tune `bucket_cap_mb` and the size of the first bucket while the model trains.

    Call it on every rank of the model's process group at the same point, before or between training steps; with
    several models in the same order everywhere. Rank 0's settings hold. Except for `accept_hook`, each argument stands
    for a variable of the environment, `log` for `AUTOTUNE_LOG`, and goes before it. Without `AUTOTUNE` it is on.

    Args:
        model: Wrapped, as it will be trained.
        log: Path of the tuning log, which is appended to.
        max_samples: Samples that the search may take.
        max_steps: Steps within which the tuner decides.
        max_seconds: Seconds within which the tuner decides. Without any of the three 120, or as long as 200 steps take.
        warmup_steps: Steps before the first window.
        steps_per_sample: Steps in a window.
        seed: Seed of everything random in the tuner.
        model_name: A name for people.
        accept_hook: Whether the model's communication hook, though it has a state, keeps nothing that depends on the
            size or number of a bucket. PowerSGD's does.

    Returns:
        The tuner; it is off where the model cannot be tuned.

    Raises:
        ConfigError: If `model` is not wrapped, or a value is not allowed.
    """
    if not isinstance(model, DistributedDataParallel):
        raise ConfigError(f"autotune() got a {type(model).__name__}; wrap it in DistributedDataParallel first")
    arguments = {
        "AUTOTUNE_LOG": None if log is None else os.fspath(log),
        "AUTOTUNE_MAX_SAMPLES": max_samples,
        "AUTOTUNE_MAX_STEPS": max_steps,
        "AUTOTUNE_MAX_SECONDS": max_seconds,
        "AUTOTUNE_WARMUP_STEPS": warmup_steps,
        "AUTOTUNE_STEPS_PER_SAMPLE": steps_per_sample,
        "AUTOTUNE_SEED": seed,
        "AUTOTUNE_MODEL": model_name,
    }
    settings = _read_settings(arguments)
    console = Console(dist.get_rank(), settings.log_level)
    if console.rank == 0:
        _warn_of_slips(console)
    call = _AutotuneCall(model, settings, console, accept_hook=accept_hook)
    return call.start()


@final
class DdpTuner:
    """The tuner of one model on one rank.

    As a context manager it is closed at the end of the block; it is also closed at the end of the process.
    """

    def __init__(self, follower: Follower | None, thread: TuningThread | None) -> None:
        """Hold the follower and the thread; made by `autotune`."""
        self._follower = follower
        self._thread = thread
        if thread is not None:
            atexit.register(self.close)

    @property
    def result(self) -> Result | None:
        """The last decision, on rank 0; None before that, where tuning is off, and on other ranks."""
        return None if self._thread is None else self._thread.result

    @property
    def is_finished(self) -> bool:
        """True while a decision is in force and nothing is tried; changes after the same step on every rank.

        It stays true where tuning is off or closed. Otherwise it turns false when step times have moved so far that the
        tuner asks the question anew, and true again with the answer.
        """
        return self._follower is None or self._follower.is_over or self._follower.is_settled

    @property
    def config(self) -> Config | None:
        """The config in force on this rank, `bucket_cap_mb` and `first_bucket_bytes`; None where tuning is off."""
        return None if self._follower is None else self._follower.sizes.to_config()

    def close(self) -> None:
        """End tuning; on rank 0 alone it has an effect, which reaches all ranks within a few tens of steps.

        The buckets become those of the last decision, without one those that training began with. Waits for no other
        rank; never raises; idempotent.
        """
        if self._thread is not None:
            atexit.unregister(self.close)
            self._thread.stop()

    def __enter__(self) -> "DdpTuner":
        """Return the tuner."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the tuner."""
        self.close()


@dataclass(frozen=True)
class _AutotuneCall:
    """One call of `autotune`, on one rank."""

    model: DistributedDataParallel
    settings: Settings
    console: Console
    accept_hook: bool

    def start(self) -> DdpTuner:
        """Start this rank's part of the tuning."""
        group = self.model.process_group
        rank, world_size = dist.get_rank(group), dist.get_world_size(group)
        log, objection = self._prepare(is_leading=rank == 0)
        nothing = None if objection else _nothing_to_tune(self.model, world_size)
        if world_size == 1 or nothing is not None:
            return self._start_alone(log, objection, nothing or "")
        try:
            control = ControlGroup(group, self.settings.timeout_s)
            company = self._meet(control, objection)
        except ControlLost as error:
            return self._stay_off(f"the ranks did not meet on a Gloo group: {error}", log)
        objection = company.objection()
        if objection is not None:
            return self._stay_off(objection if rank == 0 else None, log)
        return self._start_among(company, control, log)

    def _meet(self, control: ControlGroup, objection: str | None) -> Company:
        """Exchange introductions with the other ranks."""
        texts = control.gather(Introduction.of(self.model, objection).to_text())
        return Company([Introduction.from_text(text) for text in texts])

    def _prepare(self, *, is_leading: bool) -> tuple[TuningLog | None, str | None]:
        """Look at the model; on rank 0 open the log and load the designer. Return the log, or the obstacle."""
        objection = find_objection(self.model, accept_hook=self.accept_hook)
        if objection is not None or not is_leading:
            return None, objection
        if self.settings.given.get("AUTOTUNE") is False:
            return None, TURNED_OFF
        try:
            log = open_log(self.settings.autotune_log)
        except OSError as error:
            reason = error.strerror or error
            return None, f"the log AUTOTUNE_LOG={self.settings.autotune_log!r} cannot be written: {reason}"
        try:
            load_designer(DEFAULT_DESIGNER)
        except ImportError as error:
            log.close()
            return None, f"the designer cannot be loaded: {error}"
        return log, None

    def _start_alone(self, log: TuningLog | None, objection: str | None, nothing: str) -> DdpTuner:
        """Report on rank 0, once, that there is nothing to tune, as a run that ends at once."""
        if log is None:
            return self._stay_off(objection, None)
        company = Company([Introduction.of(self.model, None)])
        thread = self._thread(company, log, Exchange(bucket_sizes(self.model)), nothing)
        thread.run()
        tuner = DdpTuner(None, thread)
        tuner.close()
        return tuner

    def _start_among(self, company: Company, control: ControlGroup, log: TuningLog | None) -> DdpTuner:
        sizes = bucket_sizes(self.model)
        exchange, thread = None, None
        if log is not None:
            exchange = Exchange(sizes)
            thread = self._make_thread(company, log, exchange)
        follower = Follower(
            control,
            exchange=exchange,
            sizes=sizes,
            clock=clock_for(self.model.device),
            accept_hook=self.accept_hook,
            warn=self.console.warning,
        )
        follower.follow(self.model)
        tuner = DdpTuner(follower, thread)
        if thread is not None:
            thread.start()
        return tuner

    def _make_thread(self, company: Company, log: TuningLog, exchange: Exchange) -> TuningThread | None:
        """Return the tuning thread; None where it cannot be made, and then the first round ends tuning on all ranks."""
        try:
            return self._thread(company, log, exchange, nothing="")
        except Exception as error:  # noqa: BLE001  (tuning never fails training)
            self.console.warning(f"the tuner of DDP's buckets stays off: {error!r}")
            log.close()
            exchange.end()
            return None

    def _stay_off(self, objection: str | None, log: TuningLog | None) -> DdpTuner:
        if log is not None:
            log.close()
        if objection is not None:
            tell = self.console.info if objection == TURNED_OFF else self.console.warning
            tell(f"the tuner of DDP's buckets stays off: {objection}")
        return DdpTuner(None, None)

    def _thread(self, company: Company, log: TuningLog, exchange: Exchange, nothing: str) -> TuningThread:
        """Return the tuning thread; `nothing` is the verdict where there is nothing to tune, empty elsewhere."""
        settings, warn = self.settings, self.console.warning
        memory = Memory.of(settings.autotune_cache, user_cache_folder(environment()), self.console)
        job = DdpJob(self._plan(company, nothing), memory, exchange)
        observers = (TuningDisplay(settings.autotune_log),)
        return TuningThread(job, Surroundings((log,), observers, memory, warn, exchange.closing))

    def _plan(self, company: Company, nothing: str) -> BucketPlan:
        model, settings = self.model, self.settings
        baseline, size = bucket_sizes(model), gradient_bytes(model)
        return BucketPlan(
            space=bucket_space(baseline, size, is_fixed=bool(nothing)),
            baseline=baseline,
            settings=settings,
            identity=company.identity(model, settings.hardware),
            bytes_per_step=size,
            tensor_set=int(model_fingerprint(gradient_counts(model))[:15], 16),
            nothing_to_tune=nothing,
        )


def _read_settings(arguments: Mapping[str, object]) -> Settings:
    given = {name: value for name, value in environment().items() if name in SETTINGS}
    given |= {name: str(value) for name, value in arguments.items() if value is not None}
    return Settings.from_environment(given)


@cache
def _warn_of_slips(console: Console) -> None:
    """Warn of variables that are probably misspelt, once for all models."""
    for slip in find_slips(environment()):
        console.warning(slip)


def _nothing_to_tune(model: DistributedDataParallel, world_size: int) -> str | None:
    """Return the reason why no bucket size can make a difference, or None."""
    if world_size == 1:
        return "nothing to tune, for one rank alone reduces no gradients"
    if len(reduced_parameters(model)) == 1:
        return "nothing to tune, for the model has one parameter and thus one bucket"
    return None
