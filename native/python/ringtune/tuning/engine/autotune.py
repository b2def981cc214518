# SPDX-License-Identifier: Apache-2.0
"""The tuner of a job on the engine: opens the log before the ranks meet, and starts the tuning thread after.

`Autotune.prepare` finds everything that can be wrong with the settings before training starts. After that this module
neither raises into training nor runs on its threads.
"""

import hashlib
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.metrics.tuner_facts import TunerFacts
from ringtune.settings.settings import Settings
from ringtune.system.cache_files import START_LIMIT_S, within
from ringtune.system.console import Console
from ringtune.tuner import DEFAULT_DESIGNER, TuningLog, load_designer, open_log
from ringtune.tuner.logs.file import advice_on
from ringtune.tuner.policy.turn import Turn
from ringtune.tuner.policy.unasked import BEGINS_AFTER_S
from ringtune.tuning.job.callbacks import CallbackObserver, Moment, RegisteredCallbacks
from ringtune.tuning.job.display import TuningDisplay
from ringtune.tuning.job.host_lock import HostLock, NoLock, host_lock
from ringtune.tuning.job.hosts_turn import HostsTurn, LockAnswers
from ringtune.tuning.job.memory import Memory
from ringtune.tuning.job.observers import TimelineObserver
from ringtune.tuning.job.own_line import write_own_line
from ringtune.tuning.job.quiet_display import QuietDisplay
from ringtune.tuning.job.thread import Surroundings, TuningJob, TuningThread
from ringtune.tuning.job.tuning_end import TuningEnd
from ringtune.tuning.service_link import NoService, ServiceLink, service_link
from ringtune.world.world import World

from .job import EngineJob
from .world_job import WorldJob


class Autotune:
    """The tuner of one job, on rank 0: `prepare()`, `start()`, `stop()`. Used from the main thread.

    Attributes:
        facts: Figures of the tuner's work, for metrics; readable from any thread.
    """

    def __init__(self, cache_folder: Path, callbacks: RegisteredCallbacks) -> None:
        """Begin without a log.

        Args:
            cache_folder: Folder of the file of earlier studies, unless a setting names another file.
            callbacks: The user's callbacks, which hear of the tuner's work.
        """
        self.facts = TunerFacts()
        self._callbacks = callbacks
        self._cache_folder = cache_folder
        self._log: TuningLog | None = None
        self._thread: TuningThread | None = None
        self._job: WorldJob | None = None
        self._memory: Memory | None = None
        self._closing = TuningEnd()
        self._link: ServiceLink = NoService()
        self._answers: LockAnswers | None = None

    def prepare(self, settings: Settings) -> None:
        """Open the log and load the designer, before the ranks meet.

        Raises:
            ConfigError: If the log cannot be written, or the service's URL or token is malformed.
        """
        if not settings.autotune:
            return
        console = Console(0, settings.log_level)
        notices = console if settings.is_unasked else ServiceNotices(console)
        self._link = service_link(settings.service_url, settings.service_token, self._cache_folder, notices)
        try:
            self._log = within(START_LIMIT_S, partial(open_log, settings.autotune_log))
        except OSError as error:
            raise ConfigError(
                f"AUTOTUNE_LOG={settings.autotune_log!r} cannot be written: {error.strerror or error}; "
                f"{advice_on(error)}"
            ) from error
        if settings.is_unasked:  # loaded once the job has trained for long enough
            return
        try:
            load_designer(DEFAULT_DESIGNER)
        except ImportError:  # the tuning run meets it again, warns, and keeps the config
            return

    def start(self, world: World) -> None:
        """Start the tuning thread on rank 0 if the tuner is on, and the answers to its lock requests on other hosts."""
        is_unasked = world.settings.is_unasked
        warn = world.console.info if is_unasked else world.console.warning
        lock = host_lock(world.settings.autotune_lock, warn, _job_name(world))
        self._answers = _answers(world, lock)
        if self._answers is not None:
            self._answers.start()
        if self._log is None or world.rank != 0:
            return
        memory = self._memory = Memory.of(world.settings.autotune_cache, self._cache_folder, world.console)
        around = Surroundings(
            sinks=(self.facts, self._link.report_log(), self._log),
            observers=(
                TimelineObserver(world.engine),
                self._display(world),
                self.facts,
                CallbackObserver(self._callbacks, partial(_moment, world, self.facts), warn),
            ),
            memory=memory,
            warn=warn,
            closing=self._closing,
            turn=_turn(world, lock, self._closing),
            holder=lock.holder,
            trained_s=BEGINS_AFTER_S if is_unasked else 0.0,
        )
        self._job = WorldJob(world, EngineJob(world, memory, self._closing), self._link)
        self._thread = TuningThread(self._job, around)
        self._thread.start()

    def _display(self, world: World) -> TuningDisplay | QuietDisplay:
        log, study_page = world.settings.autotune_log, self._link.study_page
        if world.settings.is_unasked:
            return QuietDisplay(world.console, log, study_page)
        return TuningDisplay(log, study_page=study_page)

    @property
    def closing(self) -> TuningEnd:
        """Set when the job's tuning ends."""
        return self._closing

    def hand_over(self, make: Callable[[Memory], TuningJob]) -> None:
        """Let a model be tuned together with the engine, on rank 0 and before the first step is marked.

        Args:
            make: Returns the model's job, out of the finished runs of this machine.
        """
        if self._job is not None and self._memory is not None:
            self._job.hand_over(make(self._memory))

    def stop(self) -> None:
        """End tuning and close the log; a thread that does not end in time is left behind. Never raises."""
        self._closing.set()
        if self._answers is not None:
            self._answers.stop()
        if self._thread is not None:
            self._thread.stop()
            self._link.close()
        elif self._log is not None:
            self._log.close()


class ServiceNotices:
    """Notices of the service's part in tuning: its answers are shown at any log level, as the tuner's own lines."""

    def __init__(self, console: Console) -> None:
        """Show warnings on `console`."""
        self._console = console

    def info(self, text: str) -> None:
        """Show an answer of the service, or a delivery to it."""
        write_own_line(f"ringtune autotune: {text}")

    def warning(self, text: str) -> None:
        """Show a warning."""
        self._console.warning(text)


def _job_name(world: World) -> str:
    """Return a name that the ranks of this job share and no other job has; empty in a world of one host."""
    is_apart = world.layout.host_count > 1 and world.job_key
    return hashlib.sha256(b"tuning lock" + world.job_key).hexdigest()[:32] if is_apart else ""


def _turn(world: World, lock: HostLock | NoLock, closing: threading.Event) -> Turn:
    """Return the job's turn: the lock of rank 0's host, or the locks of all hosts."""
    layout = world.layout
    if layout.host_count == 1 or isinstance(lock, NoLock):
        return lock
    leaders = [layout.ranks_of(host)[0] for host in range(layout.host_count) if host != layout.host]
    return HostsTurn(lock, world.engine, leaders, closing)


def _answers(world: World, lock: HostLock | NoLock) -> LockAnswers | None:
    """Return the part of another host than rank 0's, on its first rank; None elsewhere, and without a tuner."""
    layout = world.layout
    is_leader = world.settings.autotune and layout.host != layout.hosts[0] and layout.local_rank == 0
    return LockAnswers(lock, world.engine) if is_leader and isinstance(lock, HostLock) else None


def _moment(world: World, facts: TunerFacts) -> Moment:
    """Return where training is, for the user's callbacks."""
    step_s = facts.state().run.step_s
    return Moment(world.engine.counters()["steps"], None if step_s is None else step_s * 1e3)
