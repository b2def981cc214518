# SPDX-License-Identifier: Apache-2.0
"""A DDP model as a `TuningJob`; all that it shares with training is the `Exchange`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ringtune.settings import Settings
from ringtune.tuner import Question, Result, SearchSpace, Trial
from ringtune.tuning.memory import Memory
from ringtune.tuning.question import JobIdentity, question_of, run_settings
from ringtune.tuning.windows import WindowBuilder

from .buckets import BucketSizes
from .target import DdpTarget, Exchange


@dataclass(frozen=True)
class BucketPlan:
    """A model's buckets, as the tuner needs to know them.

    Attributes:
        space: The legal configs.
        baseline: The buckets in force.
        settings: The job's.
        identity: The job's.
        bytes_per_step: Gradient bytes reduced per step.
        tensor_set: Hash of the multiset of (dtype, shape).
        nothing_to_tune: The verdict where the baseline is the only legal config; empty elsewhere.
    """

    space: SearchSpace
    baseline: BucketSizes
    settings: Settings
    identity: JobIdentity
    bytes_per_step: int
    tensor_set: int
    nothing_to_tune: str = ""


class DdpJob:
    """See `ringtune.tuning.thread.TuningJob`.

    The last wish is the last decision, or without one the buckets that training began with.
    """

    def __init__(self, plan: BucketPlan, memory: Memory, exchange: Exchange) -> None:
        """Prepare a job.

        Args:
            plan: The buckets.
            memory: Finished runs of this machine.
            exchange: Shared with the training thread.
        """
        self._plan = plan
        self._memory = memory
        self._exchange = exchange
        builder = WindowBuilder(plan.bytes_per_step, plan.tensor_set)
        self._target = DdpTarget(exchange, plan.space, plan.baseline.to_config(), builder)
        self._decided = plan.baseline

    def begin(self, warn: Callable[[str], None]) -> bool:
        """Return true: steps are counted from the call of `autotune` on."""
        del warn
        return True

    def question(self, earlier: Sequence[Trial]) -> Question:
        """Return what to search for; see `TuningJob`."""
        plan = self._plan
        settings = run_settings(plan.settings, plan.identity, plan.space, is_first=not earlier)
        settings = replace(settings, nothing_to_tune=plan.nothing_to_tune)
        return question_of(self._target, settings, self._memory, earlier)

    def rest(self, seconds: float) -> None:
        """Make the latest wish a decision, and wait, less when the job ends."""
        self._exchange.rest(seconds)

    def decided(self, result: Result) -> None:
        """Let the ranks rest on a decision."""
        self._decided = BucketSizes.from_config(result.config)
        self._exchange.settle()

    def ended(self) -> None:
        """Make the last decision the last wish."""
        self._exchange.ask(self._decided)
        self._exchange.end()
