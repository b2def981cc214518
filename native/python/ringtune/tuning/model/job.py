# SPDX-License-Identifier: Apache-2.0
"""A live model as a `TuningJob`; all that it shares with training is the `Exchange`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ringtune.settings.settings import Settings
from ringtune.tuner import Config, Question, Result, SearchSpace, Trial
from ringtune.tuner.designers import Designer
from ringtune.tuning.job.failing_configs import FittingDesigner
from ringtune.tuning.job.memory import Memory
from ringtune.tuning.job.question import JobIdentity, question_of, run_settings
from ringtune.tuning.job.waiting import Standby
from ringtune.tuning.job.windows import WindowBuilder

from .exchange import Exchange
from .live_model import Words
from .target import LimitedTarget, LiveTarget

POLL_S = 0.1  # longest delay until the end of the job is noticed, seconds


@dataclass(frozen=True)
class MemoryPlan:
    """Memory of a model whose settings change it by much.

    Attributes:
        limit_bytes: Limit of each rank's memory, the least of all ranks.
        extra_bytes: Returns the most memory that settings need beyond that of the baseline.
    """

    limit_bytes: int
    extra_bytes: Callable[[Words], int]


@dataclass(frozen=True)
class LivePlan:
    """A model's settings, as the tuner needs to know them.

    Attributes:
        target_name: Name of the target in the study's key.
        space: The legal configs.
        baseline: The config in force.
        words_of: Returns the settings that a config stands for.
        settings: The job's.
        identity: The job's.
        bytes_per_step: Gradient bytes reduced per step.
        tensor_set: Hash of the multiset of (dtype, shape).
        nothing_to_tune: The verdict where the baseline is the only legal config; empty elsewhere.
        memory: Memory of the model; None where the settings change it by little.
    """

    target_name: str
    space: SearchSpace
    baseline: Config
    words_of: Callable[[Config], Words]
    settings: Settings
    identity: JobIdentity
    bytes_per_step: int
    tensor_set: int
    nothing_to_tune: str = ""
    memory: MemoryPlan | None = None


class LiveJob:
    """See `ringtune.tuning.job.thread.TuningJob`.

    The last wish is the last decision, or without one the settings that training began with.
    """

    def __init__(self, plan: LivePlan, memory: Memory, exchange: Exchange) -> None:
        """Prepare a job.

        Args:
            plan: The settings.
            memory: Finished runs of this machine.
            exchange: Shared with the training thread.
        """
        self._plan = plan
        self._memory = memory
        self._exchange = exchange
        self._target = _target_of(plan, exchange)
        self._decided = plan.baseline

    def begin(self, warn: Callable[[str], None]) -> bool:
        """Return true once the memory of the baseline is known, false at the end of the job.

        Steps are counted from the call of `autotune` on. A model without a limit need not wait.
        """
        del warn
        if self._plan.memory is None or self._plan.nothing_to_tune:
            return True
        while not self._exchange.memory.wait(POLL_S):
            if self._exchange.closing.is_set():
                return False
        return True

    def question(self, earlier: Sequence[Trial]) -> Question:
        """Return the target, budget and designer of the search; see `TuningJob`."""
        plan = self._plan
        settings = run_settings(plan.settings, plan.identity, plan.space, is_first=not earlier)
        limit = None if plan.memory is None else plan.memory.limit_bytes
        settings = replace(settings, nothing_to_tune=plan.nothing_to_tune, memory_limit_bytes=limit)
        return question_of(self._target, settings, self._memory, earlier, wrap=self._limited)

    def standby(self) -> Standby:
        """Return the job's target and key for training while another job tunes."""
        return Standby(self._target, self._plan.identity.key)

    def rest(self, seconds: float) -> None:
        """Make the latest wish a decision, and wait, less when the job ends."""
        self._exchange.rest(seconds)

    def decided(self, result: Result) -> None:
        """Let the ranks rest on a decision."""
        self._decided = result.config
        self._exchange.settle()

    def ended(self) -> None:
        """Make the last decision the last wish."""
        self._exchange.ask(self._plan.words_of(self._decided))
        self._exchange.end()

    def _limited(self, designer: Designer) -> Designer:
        """Return the designer of a model with limited memory: it keeps away from configs that need too much."""
        if not isinstance(self._target, LimitedTarget) or self._plan.memory is None or self._plan.nothing_to_tune:
            return designer
        refused = self._memory.over_limit(self._plan.identity.key, self._plan.space, self._plan.memory.limit_bytes)
        self._target.refuse(refused)
        plan = self._plan
        return FittingDesigner(designer, refused, plan.space, plan.baseline, fits=self._target.fits)


def _target_of(plan: LivePlan, exchange: Exchange) -> LiveTarget:
    builder = WindowBuilder(plan.bytes_per_step, plan.tensor_set)
    common = (plan.target_name, exchange, plan.space, plan.baseline, builder)
    if plan.memory is None:
        return LiveTarget(*common, words_of=plan.words_of)
    return LimitedTarget(*common, words_of=plan.words_of, extra_bytes=plan.memory.extra_bytes)
