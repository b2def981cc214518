# SPDX-License-Identifier: Apache-2.0
"""The tuning run of one model in a thread of rank 0; all that it shares with training is the `Exchange`."""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from ringtune.memory import Memory
from ringtune.progress import TuningDisplay
from ringtune.tuner import (
    DEFAULT_DESIGNER,
    KeepingLog,
    Result,
    RunSettings,
    SearchSpace,
    TuningLog,
    TuningRun,
    make_designer,
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
        self.result: Result | None = None

    def start(self) -> None:
        """Run in the thread."""
        self._thread.start()

    def run(self) -> None:
        """Tune to the end; never raises. The last wish is then a decision, or the buckets that training began with."""
        try:
            result = self._tune()
            self.result = result
            if not result.is_complete:
                self._exchange.ask(self._plan.baseline)
            self._exchange.end()  # no rank waits for a disk
            if result.is_complete:
                self._plan.memory.keep(self._log.finished_run())
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

    def _tune(self) -> Result:
        plan = self._plan
        baseline = plan.baseline.to_config()
        target = DdpTarget(self._exchange, plan.space, baseline, WindowBuilder(plan.bytes_per_step, plan.tensor_set))
        settings = plan.settings
        # Where nothing is to be tuned, this is the training thread.
        learned = plan.memory.priors(settings.key, plan.space, settings.seed) if plan.space.free else ()
        designer = make_designer(DEFAULT_DESIGNER, plan.space, settings.seed, learned)
        with closing(TuningDisplay(plan.log_path)) as display:
            return TuningRun(target, designer, settings, self._log, display).run()
