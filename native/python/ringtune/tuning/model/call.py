# SPDX-License-Identifier: Apache-2.0
"""A call of `autotune(model)`: brings the ranks together, follows the model on each, and starts the tuner on rank 0.

A mistake in the call or in a setting is an error. Any other obstacle keeps the tuner off on all ranks alike: rank 0
shows the reason, and training goes on as it would without it.
"""

import atexit
import os
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType

from torch import distributed as dist
from typing_extensions import Self

from ringtune.identity.fingerprints import model_fingerprint
from ringtune.meeting.bootstrap import environment
from ringtune.settings.settings import Settings, find_slips
from ringtune.system.cache_files import user_cache_folder
from ringtune.system.console import Console
from ringtune.tuner import DEFAULT_DESIGNER, Config, Result, TuningLog, load_designer, open_log
from ringtune.tuner.policy.turn import Turn
from ringtune.tuning.job.display import TuningDisplay
from ringtune.tuning.job.host_lock import HostLock, host_lock
from ringtune.tuning.job.hosts_turn import HostsTurn, LockAnswers
from ringtune.tuning.job.memory import Memory
from ringtune.tuning.job.thread import Surroundings, TuningThread

from .control import ControlGroup, ControlLost
from .exchange import Exchange
from .follower import Follower, FollowerLinks
from .introductions import Company, Introduction
from .job import LiveJob, LivePlan, MemoryPlan
from .live_model import LiveModel, MemoryWatch
from .step_clock import clock_for
from .turns import LIMIT_S, RoundBeacons

SETTINGS = (
    "AUTOTUNE",
    "AUTOTUNE_LOG",
    "AUTOTUNE_MODEL",
    "AUTOTUNE_JOB_NAME",
    "AUTOTUNE_TAGS",
    "AUTOTUNE_COMMIT",
    "AUTOTUNE_CACHE",
    "AUTOTUNE_LOCK",
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


@dataclass(frozen=True)
class Arguments:
    """Arguments of `autotune`, each in place of a variable of the environment; None leaves it to the variable.

    Attributes:
        log: `AUTOTUNE_LOG`.
        max_samples: `AUTOTUNE_MAX_SAMPLES`.
        max_steps: `AUTOTUNE_MAX_STEPS`.
        max_seconds: `AUTOTUNE_MAX_SECONDS`.
        warmup_steps: `AUTOTUNE_WARMUP_STEPS`.
        steps_per_sample: `AUTOTUNE_STEPS_PER_SAMPLE`.
        seed: `AUTOTUNE_SEED`.
        model_name: `AUTOTUNE_MODEL`.
    """

    log: str | os.PathLike[str] | None = None
    max_samples: int | None = None
    max_steps: int | None = None
    max_seconds: float | None = None
    warmup_steps: int | None = None
    steps_per_sample: int | None = None
    seed: int | None = None
    model_name: str | None = None

    def variables(self) -> dict[str, str]:
        """Return those that are given, by the name of their variable."""
        values = {
            "AUTOTUNE_LOG": None if self.log is None else os.fspath(self.log),
            "AUTOTUNE_MAX_SAMPLES": self.max_samples,
            "AUTOTUNE_MAX_STEPS": self.max_steps,
            "AUTOTUNE_MAX_SECONDS": self.max_seconds,
            "AUTOTUNE_WARMUP_STEPS": self.warmup_steps,
            "AUTOTUNE_STEPS_PER_SAMPLE": self.steps_per_sample,
            "AUTOTUNE_SEED": self.seed,
            "AUTOTUNE_MODEL": self.model_name,
        }
        return {name: str(value) for name, value in values.items() if value is not None}


class ModelTuner:
    """The tuner of one model on one rank.

    As a context manager it is closed at the end of the block; it is also closed at the end of the process.
    """

    def __init__(self, model: LiveModel, follower: Follower | None, thread: TuningThread | None) -> None:
        """Hold the follower and the thread; made by `autotune`."""
        self._model = model
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
        """True while a decision is in force and no config is tried; changes after the same step on every rank.

        It stays true where tuning is off or closed. Otherwise it turns false when step times have moved so far that the
        tuner asks the question anew, and true again with the answer.
        """
        return self._follower is None or self._follower.is_over or self._follower.is_settled

    @property
    def config(self) -> Config | None:
        """The config in force on this rank; None where tuning is off."""
        return None if self._follower is None else self._model.config_of(self._follower.words)

    def close(self) -> None:
        """End tuning; on rank 0 alone it has an effect, which reaches all ranks within a few tens of steps.

        The settings become those of the last decision, without one those that training began with. Waits for no other
        rank; never raises; idempotent.
        """
        if self._thread is not None:
            atexit.unregister(self.close)
            self._thread.stop()

    def __enter__(self) -> Self:
        """Return the tuner."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the tuner."""
        self.close()


@dataclass(frozen=True)
class Parts:
    """The parts of a tuner that one rank runs; both are None where the model is not tuned."""

    follower: Follower | None = None
    thread: TuningThread | None = None


@dataclass
class _Rank0:
    """The tuner's side of rank 0: the log, and the state that it shares with the training thread."""

    log: TuningLog
    exchange: Exchange
    beacons: RoundBeacons = field(default_factory=lambda: RoundBeacons(0))


@dataclass(frozen=True)
class AutotuneCall:
    """One call of `autotune`, on one rank.

    Attributes:
        model: The model, wrapped.
        settings: Settings of this rank; rank 0's hold.
        console: Takes lines for people.
    """

    model: LiveModel
    settings: Settings
    console: Console

    @classmethod
    def of(cls, model: LiveModel, arguments: Arguments) -> "AutotuneCall":
        """Return the call with settings from arguments, and else from the environment.

        Raises:
            ConfigError: If a value is not allowed.
        """
        given = {name: value for name, value in environment().items() if name in SETTINGS}
        settings = Settings.from_environment(given | arguments.variables())
        console = Console(dist.get_rank(), settings.log_level)
        if console.rank == 0:
            _warn_of_slips(console)
        return cls(model, settings, console)

    def start(self) -> Parts:
        """Start this rank's part of the tuning."""
        group = self.model.group
        rank, world_size = dist.get_rank(group), dist.get_world_size(group)
        log, objection = self._prepare(is_leading=rank == 0)
        nothing = None if objection else self._nothing_to_tune(world_size)
        if world_size == 1 or nothing is not None:
            return self._start_alone(log, objection, nothing or "")
        try:
            control = ControlGroup(group, self.settings.timeout_s)
            company = self.meet(control, objection)
        except ControlLost as error:
            return self._stay_off(f"the ranks did not meet on a Gloo group: {error}", log)
        objection = company.objection(self.model.texts.compared)
        if objection is not None:
            return self._stay_off(objection if rank == 0 else None, log)
        return self._start_among(company, control, log)

    def _nothing_to_tune(self, world_size: int) -> str | None:
        if world_size == 1:
            return "nothing to tune, for one rank alone reduces no gradients"
        return self.model.nothing_to_tune()

    def meet(self, control: ControlGroup, objection: str | None) -> Company:
        """Exchange introductions with the other ranks; raises `ControlLost` if one does not come."""
        texts = control.gather(Introduction.of(self.model, objection).to_text())
        return Company([Introduction.from_text(text) for text in texts])

    def _prepare(self, *, is_leading: bool) -> tuple[TuningLog | None, str | None]:
        """Look at the model; on rank 0 open the log and load the designer. Return the log, or the obstacle."""
        objection = self.model.objection()
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

    def _start_alone(self, log: TuningLog | None, objection: str | None, nothing: str) -> Parts:
        """Report on rank 0, once, that the baseline is the only legal config, as a run that ends at once."""
        if log is None:
            return self._stay_off(objection, None)
        company = Company([Introduction.of(self.model, None)])
        thread = self._thread(company, _Rank0(log, Exchange(self.model.in_force())), None, nothing)
        thread.run()
        thread.stop()
        return Parts(None, thread)

    def _start_among(self, company: Company, control: ControlGroup, log: TuningLog | None) -> Parts:
        ranks_on_host = company.ranks_beside(control.rank)
        memory = self.model.memory_watch(company.memory_limit_bytes, ranks_on_host)
        thread, exchange, beacons = None, None, RoundBeacons(control.rank)
        if log is not None:
            exchange = Exchange(self.model.in_force())
            thread = self._make_thread(company, _Rank0(log, exchange, beacons), memory)
        if control.rank in company.leaders:
            beacons.answers = LockAnswers(host_lock(self.settings.autotune_lock, self.console.warning), beacons)
        links = FollowerLinks(exchange, clock_for(self.model.device), self.console.warning, beacons, memory)
        follower = Follower(control, self.model, links)
        follower.follow()
        if thread is not None:
            thread.start()
        return Parts(follower, thread)

    def _make_thread(self, company: Company, rank0: _Rank0, memory: MemoryWatch | None) -> TuningThread | None:
        """Return the tuning thread; None where it cannot be made, and then the first round ends tuning on all ranks."""
        try:
            return self._thread(company, rank0, memory)
        except Exception as error:  # noqa: BLE001  (tuning never fails training)
            self.console.warning(f"{self.model.texts.tuner} stays off: {error!r}")
            rank0.log.close()
            rank0.exchange.end()
            return None

    def _stay_off(self, objection: str | None, log: TuningLog | None) -> Parts:
        if log is not None:
            log.close()
        if objection is not None:
            tell = self.console.info if objection == TURNED_OFF else self.console.warning
            tell(f"{self.model.texts.tuner} stays off: {objection}")
        return Parts()

    def _thread(self, company: Company, rank0: _Rank0, watch: MemoryWatch | None, nothing: str = "") -> TuningThread:
        """Return the tuning thread; `nothing` is the verdict where only the baseline is legal, empty elsewhere."""
        settings, warn, exchange = self.settings, self.console.warning, rank0.exchange
        memory = Memory.of(settings.autotune_cache, user_cache_folder(environment()), self.console)
        job = LiveJob(self.plan(company, watch, nothing), memory, exchange)
        observers = (TuningDisplay(settings.autotune_log),)
        lock = host_lock(settings.autotune_lock, warn)
        turn: Turn = lock
        if company.leaders and isinstance(lock, HostLock):
            turn = HostsTurn(lock, rank0.beacons, company.leaders[:1], exchange.closing, LIMIT_S)
        around = Surroundings((rank0.log,), observers, memory, warn, exchange.closing, turn, lock.holder)
        return TuningThread(job, around)

    def plan(self, company: Company, watch: MemoryWatch | None, nothing: str = "") -> LivePlan:
        """Return the model's settings as the tuner needs to know them."""
        model, settings = self.model, self.settings
        limits = None if watch is None else MemoryPlan(watch.limit_bytes, model.extra_bytes)
        return LivePlan(
            target_name=model.target_name,
            space=model.space(is_fixed=bool(nothing)),
            baseline=model.config_of(model.in_force()),
            words_of=model.words_of,
            settings=settings,
            identity=company.identity(model, settings.hardware),
            bytes_per_step=model.gradient_bytes(),
            tensor_set=int(model_fingerprint(model.gradient_counts())[:15], 16),
            nothing_to_tune=nothing,
            memory=limits,
        )


@cache
def _warn_of_slips(console: Console) -> None:
    """Warn of variables that are probably misspelt, once for all models."""
    for slip in find_slips(environment()):
        console.warning(slip)
