# SPDX-License-Identifier: Apache-2.0
"""The tuning run of one model: without a knob to tune, and at its end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ringtune.ddp.buckets import BucketSizes, bucket_space
from ringtune.settings.settings import Settings
from ringtune.system.console import Console
from ringtune.tuner import EarlierStudy, Prior, SearchSpace, open_log
from ringtune.tuner.logs.records import Record
from ringtune.tuner.logs.store import WrittenPart
from ringtune.tuning.job.memory import Memory
from ringtune.tuning.job.question import JobIdentity
from ringtune.tuning.job.thread import Surroundings, TuningThread
from ringtune.tuning.model.exchange import Exchange
from ringtune.tuning.model.job import LiveJob, LivePlan

SIZES = BucketSizes(25 << 20, 1 << 20)


class UnreachableMemory(Memory):
    """A file that must not be touched: its disk may be far away, and gone."""

    def priors(
        self, key: Mapping[str, Any], space: SearchSpace, seed: int, models: Sequence[Prior] = ()
    ) -> Sequence[EarlierStudy]:
        """Fail."""
        raise AssertionError("the memory was read")


@dataclass(frozen=True)
class AskingMemory(Memory):
    """Asks something when it is to keep a run."""

    ask: Callable[[], bool] = bool
    answers: list[bool] = field(default_factory=list)

    def keep(self, records: Sequence[Record], written: WrittenPart | None = None) -> WrittenPart | None:
        """Note the answer."""
        del records
        self.answers.append(self.ask())
        return written


def thread_with(memory: Memory, exchange: Exchange, warnings: list[str]) -> TuningThread:
    """Return the thread of a run that has no knob to tune."""
    space = bucket_space(SIZES, 1 << 20, is_fixed=True)
    identity = JobIdentity({"model": "m"}, (2,), (), {})
    settings = Settings.from_environment({})
    plan = LivePlan(
        target_name="torch-ddp",
        space=space,
        baseline=SIZES.to_config(),
        words_of=lambda config: BucketSizes.from_config(config).words(),
        settings=settings,
        identity=identity,
        bytes_per_step=1 << 20,
        tensor_set=1,
        nothing_to_tune="nothing to tune, by order of the test",
    )
    around = Surroundings((open_log(None),), (), memory, warnings.append, exchange.closing)
    return TuningThread(LiveJob(plan, memory, exchange), around)


def test_the_ranks_hear_of_the_decision_before_the_run_is_kept() -> None:
    """The ranks go on with their rounds while a slow disk, or another job's lock, delays the run's file."""
    warnings: list[str] = []
    exchange = Exchange(SIZES.words())
    memory = AskingMemory(None, Console(0), ask=lambda: exchange.wish.is_decision)

    thread_with(memory, exchange, warnings).run()

    assert [] == warnings
    assert [True] == memory.answers
    assert exchange.wish.is_last


def test_where_nothing_is_to_be_tuned_the_memory_is_not_read() -> None:
    """The training thread waits for no file."""
    warnings: list[str] = []
    thread = thread_with(UnreachableMemory(None, Console(0)), Exchange(SIZES.words()), warnings)

    thread.run()

    assert [] == warnings
    assert thread.result is not None
    assert "keeping default: nothing to tune, by order of the test" == thread.result.verdict
