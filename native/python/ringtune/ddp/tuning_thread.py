# SPDX-License-Identifier: Apache-2.0
"""The tuning of one model in a thread of rank 0; all that it shares with training is the `Exchange`."""

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from ringtune.memory import Memory
from ringtune.progress import TuningDisplay
from ringtune.tuner import (
    DEFAULT_DESIGNER,
    ContinuousTuning,
    KeepingLog,
    Prior,
    Question,
    Result,
    RunSettings,
    SearchSpace,
    Trial,
    TuningLog,
    make_designer,
    study_of,
)

from .buckets import BucketSizes
from .target import DdpTarget, Exchange
from .windows import WindowBuilder

STOP_LIMIT_S = 2.0  # how long the end of the job waits for the tuner's last words


@dataclass(frozen=True)
class Plan:
    """What to tune, and how.

    Attributes:
        space: The legal configs.
        baseline: The buckets in force.
        settings: Budget and identity.
        log_path: Named in the verdict, or None.
        bytes_per_step: Gradient bytes reduced per step.
        tensor_set: Hash of the multiset of (dtype, shape).
        memory: What earlier jobs of this machine found, and where this one's findings go.
    """

    space: SearchSpace
    baseline: BucketSizes
    settings: RunSettings
    log_path: str | None
    bytes_per_step: int
    tensor_set: int
    memory: Memory


class TuningThread:
    """Runs once: `start()`, or `run()` in the calling thread; then `stop()`."""

    def __init__(self, plan: Plan, log: TuningLog, exchange: Exchange, warn: Callable[[str], None]) -> None:
        """Prepare a run.

        Args:
            plan: What to tune.
            log: Takes the records; closed by `stop`.
            exchange: With the training thread.
            warn: Tells people.
        """
        self._plan = plan
        self._log = KeepingLog(log)
        self._exchange = exchange
        self._warn = warn
        # A daemon, for training may end without a word to it; `stop` at exit closes the log.
        self._thread = threading.Thread(target=self.run, name="ringtune-ddp-tuning", daemon=True)
        builder = WindowBuilder(plan.bytes_per_step, plan.tensor_set)
        self._target = DdpTarget(exchange, plan.space, plan.baseline.to_config(), builder)
        self._decided = plan.baseline
        self.result: Result | None = None

    def start(self) -> None:
        """Run in the thread."""
        self._thread.start()

    def run(self) -> None:
        """Tune, and watch what was decided, to the end; never raises.

        The last wish is then the last decision, or the buckets that training began with.
        """
        try:
            self._tune()
            self._exchange.ask(self._decided)
        except Exception as error:  # noqa: BLE001  (tuning never fails training)
            self._warn(f"the tuner failed and stays off: {error!r}; training goes on with the buckets that it has")
        finally:
            self._exchange.end()

    def stop(self) -> None:
        """End tuning and close the log; a tuner that is deep in thought is left behind. Never raises."""
        self._exchange.closing.set()
        if self._thread.is_alive():
            self._thread.join(STOP_LIMIT_S)
        if not self._thread.is_alive():
            self._log.close()

    def _tune(self) -> None:
        with closing(TuningDisplay(self._plan.log_path)) as display:
            ContinuousTuning(
                self._question,
                self._log,
                display,
                rest=self._exchange.rest,
                on_decision=self._take_decision,
                is_over=self._exchange.closing.is_set,
            ).run()

    def _take_decision(self, result: Result) -> None:
        self.result, self._decided = result, BucketSizes.from_config(result.config)
        self._exchange.settle()  # no rank waits for a disk
        self._plan.memory.keep(self._log.finished_run())

    def _question(self, earlier: Sequence[Trial]) -> Question:
        """Ask what to search for; `earlier` are the trials of the search before."""
        plan, settings = self._plan, self._plan.settings
        learned: Sequence[Prior] = study_of(plan.space, earlier, settings.seed)
        if not learned and plan.space.free:  # where nothing is to be tuned, this is the training thread
            learned = plan.memory.priors(settings.key, plan.space, settings.seed)
        designer = make_designer(DEFAULT_DESIGNER, plan.space, settings.seed, learned)
        run_settings = replace(settings, prior_trials=()) if earlier else settings
        return Question(self._target, designer, run_settings)
