# SPDX-License-Identifier: Apache-2.0
"""Earlier runs of a log that a run goes on from: found by their question, and joined with it for a review.

A run records the ids of the runs that it goes on from (`continues`). Older logs lack them: a run then belongs to the
unfinished runs of the same question directly before it.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from ringtune.tuner.sample import FAILURES, Phase, Sample
from ringtune.tuner.space.config import Config

from .reader import RunLog, runs_of_file, sample_from_record
from .records import EndRecord, Json, ResultRecord, SampleRecord, SuggestionRecord

COUNTED = frozenset({Phase.BASELINE.value, Phase.SEARCH.value, Phase.ADOPTION.value})
"""Phases whose windows are evidence of a config."""
Timed = TypeVar("Timed", SampleRecord, SuggestionRecord, ResultRecord | None, EndRecord | None)
LIMITS = ("max_samples", "max_steps", "max_seconds")


@dataclass(frozen=True)
class EarlierRuns:
    """Runs of one question that another run goes on from.

    Attributes:
        logs: Their records, the oldest run first; empty for a run that begins anew.
    """

    logs: tuple[RunLog, ...] = ()

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Ids of the runs."""
        return tuple(log.run_id for log in self.logs)

    @property
    def is_finished(self) -> bool:
        """True if the newest run came to a decision."""
        return bool(self.logs) and self.logs[-1].result is not None

    @property
    def unix_time_s(self) -> float | None:
        """Start of the newest run, Unix time in seconds; None without a run."""
        newest = self.logs[-1].run if self.logs else None
        return None if newest is None else newest.unix_time_s

    @property
    def verdict(self) -> str:
        """Verdict of the newest run; empty if it has none."""
        adoption = self.logs[-1].adoption if self.logs else None
        return "" if adoption is None else adoption.verdict

    @property
    def adopted(self) -> Config | None:
        """Config that the newest finished run adopted after a test; None if it kept the baseline."""
        result = next((log.result for log in reversed(self.logs) if log.result is not None), None)
        return Config(result.config) if result is not None and result.adopted else None

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """Samples of baseline, search and test in the order of measurement, void ones included."""
        samples = (sample_from_record(record) for record in _numbered(self.logs))
        return tuple(sample for sample in samples if not sample.valid or sample.step_times.is_usable)

    @cached_property
    def measured(self) -> frozenset[Config]:
        """Configs with a valid sample, without the baseline."""
        return frozenset(sample.config for sample in self.samples if sample.valid and sample.trial_id)

    @cached_property
    def failed(self) -> frozenset[Config]:
        """Configs that failed whenever they were measured."""
        return frozenset(sample.config for sample in self.samples if sample.reason in FAILURES) - self.measured

    @cached_property
    def searched(self) -> int:
        """Number of search samples, failed ones included; they count against a budget of samples."""
        counted = (sample for sample in self.samples if sample.valid or sample.reason in FAILURES)
        return sum(sample.phase is Phase.SEARCH for sample in counted)

    @cached_property
    def steps(self) -> int:
        """Steps of the finished runs; they count against a budget of steps. An interrupted run gets its budget back."""
        finished = (log for log in self.logs if log.result is not None)
        return sum(sample.steps for log in finished for sample in log.samples if sample.phase in COUNTED)

    @cached_property
    def seconds(self) -> float:
        """Duration of the finished runs, seconds; it counts against a budget of seconds."""
        return sum(log.result.t_s for log in self.logs if log.result is not None)

    def leave_room_in(self, budget: Mapping[str, float | None]) -> bool:
        """Return whether a budget is larger than that of the newest run, and not used up by the runs.

        Args:
            budget: The limits `max_samples`, `max_steps` and `max_seconds`; None sets no limit.
        """
        newest = self.logs[-1].run if self.logs else None
        before = {} if newest is None else newest.steps_budget
        used = {"max_samples": self.searched, "max_steps": self.steps, "max_seconds": self.seconds}
        is_larger = any(_limit(budget.get(name)) > _limit(before.get(name)) for name in LIMITS)
        return is_larger and all(_limit(budget.get(name)) > used[name] for name in LIMITS)


NOTHING_EARLIER = EarlierRuns()


def find_earlier(path: str | os.PathLike[str] | None, key: Mapping[str, object], space: Json, seed: int) -> EarlierRuns:
    """Return the newest run of a question, with the runs that it goes on from.

    A run that was ended before its search is passed over: nobody would go on from it.

    Args:
        path: The log; None, a missing file, or a device, which never ends, has no run.
        key: The study's key, as in `RunSettings`.
        space: `SearchSpace.to_json()`.
        seed: The seed of the run.
    """
    question = (json.loads(json.dumps(dict(key))), json.loads(json.dumps(space)), seed)
    runs = [
        log
        for log in runs_of_file(path)
        if log.run is not None
        and (log.run.key, log.run.search_space, log.run.seed) == question
        and (log.result is not None or any(sample.phase == Phase.SEARCH for sample in log.samples))
    ]
    if not runs:
        return NOTHING_EARLIER
    return EarlierRuns((*_before(runs[-1], runs[:-1]), runs[-1]))


def joined(run: RunLog, runs: Mapping[str, RunLog]) -> RunLog:
    """Return a run with the windows of the runs that it goes on from, on one time axis without pauses.

    Args:
        run: The run.
        runs: All runs of the log, by id; those that are missing are left out.
    """
    earlier = _taken_over(run, runs)
    if not earlier:
        return run
    begins_s, now_s = {}, 0.0
    for log in earlier:
        begins_s[log.run_id] = now_s
        now_s += _duration_s(log)
    before = [_later(record, begins_s[record.run_id]) for record in _numbered(earlier)]
    return replace(
        run,
        samples=[*before, *(_later(record, now_s) for record in run.samples)],
        suggestions=[_later(record, now_s) for record in run.suggestions],
        result=_later(run.result, now_s),
        end=_later(run.end, now_s),
    )


def _taken_over(run: RunLog, runs: Mapping[str, RunLog]) -> list[RunLog]:
    """Return the runs, each once, whose samples a run has taken over."""
    ids = () if run.run is None else run.run.continues or ()
    return [runs[run_id] for run_id in dict.fromkeys(ids) if run_id in runs and run_id != run.run_id]


def _later(record: Timed, by_s: float) -> Timed:
    """Return a record with a later time; None stays None."""
    return record if record is None else replace(record, t_s=record.t_s + by_s)


def _before(newest: RunLog, older: Sequence[RunLog]) -> list[RunLog]:
    """Return the runs that a run goes on from, of the older runs of its question."""
    if newest.run is not None and newest.run.continues is not None:
        return [log for log in older if log.run_id in newest.run.continues]
    before: list[RunLog] = []
    for log in reversed(older):
        if log.result is not None or (log.run is not None and log.run.continues is not None):
            break
        before.insert(0, log)
    return before


def _numbered(logs: Sequence[RunLog]) -> list[SampleRecord]:
    """Return the counted samples of runs, with the trial numbers of the run that goes on from them.

    The baseline is trial 0; other configs are numbered from 1 in the order of their first sample.
    """
    first = next((log.run for log in logs if log.run is not None), None)
    numbers: dict[Config, int] = {} if first is None else {Config(first.baseline): 0}
    records = [record for log in logs for record in log.samples if record.phase in COUNTED]
    return [replace(record, trial_id=numbers.setdefault(Config(record.config), len(numbers))) for record in records]


def _duration_s(log: RunLog) -> float:
    if log.result is not None:
        return log.result.t_s
    return max((record.t_s for record in (*log.samples, log.end) if record is not None), default=0.0)


def _limit(value: object) -> float:
    return float("inf") if not isinstance(value, int | float) else float(value)
