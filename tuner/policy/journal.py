# SPDX-License-Identifier: Apache-2.0
"""Run journal: writes the events of a run to the log and reports its progress to people."""

import time
from collections.abc import Callable, Sequence

from ringtune.tuner.designers.base import Suggestion
from ringtune.tuner.logs.records import (
    SCHEMA,
    AdoptionRecord,
    EndRecord,
    ResultRecord,
    RunRecord,
    SuggestionRecord,
    finite,
    sample_record,
)
from ringtune.tuner.sample import Phase, Sample
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace
from ringtune.tuner.statistics.paired_test import Pair

from .reporting import Progress, Reporter, Result
from .settings import RunSettings

Clock = Callable[[], float]
GIVEN_UP = "no longer in force"
"""Beginning of the verdict of a decision that was given up later."""


class Journal:
    """Run journal: measures time, counts samples, and passes records and progress to the reporter."""

    def __init__(self, reporter: Reporter, settings: RunSettings, clock: Clock) -> None:
        """Start the run's clock: `t_s` of every record counts from here."""
        self._reporter = reporter
        self._settings = settings
        self._clock = clock
        self._began_s = clock()
        self._timed_since_s = self._began_s
        self._timed = 0
        self._timed_total = 0
        self._windows = 0
        self._phase = Phase.WARMUP
        self._done = 0
        self._total: int | None = None
        self._newest: Sample | None = None

    @property
    def phase(self) -> Phase:
        """Current phase of the run."""
        return self._phase

    @property
    def now_s(self) -> float:
        """Time on the run's clock, seconds."""
        return self._clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began."""
        return self.now_s - self._began_s

    def begin(self, space: SearchSpace, baseline: Config) -> None:
        """Write the run's record."""
        settings = self._settings
        budget = {
            "max_samples": settings.max_samples,
            "max_steps": settings.max_steps,
            "max_seconds": settings.max_seconds,
            "warmup_steps": settings.warmup_steps,
            "steps_per_sample": settings.steps_per_sample,
        }
        if settings.at_once > 1:
            budget["at_once"] = settings.at_once
        self._reporter.write(
            RunRecord(
                t_s=self.elapsed_s,
                run_id=settings.run_id,
                schema=SCHEMA,
                unix_time_s=time.time(),
                model_name=settings.model_name,
                key=dict(settings.key),
                layout=dict(settings.layout),
                versions=dict(settings.versions),
                search_space=space.to_json(),
                fixed=space.fixed.to_json(),
                baseline=baseline.to_json(),
                seed=settings.seed,
                steps_budget=budget,
                job_name=settings.labels.job_name,
                tags=list(settings.labels.tags) or None,
                commit=settings.labels.commit,
                hardware_name=settings.labels.hardware_name,
                machines=[dict(machine) for machine in settings.labels.machines] or None,
                begins_with=list(settings.begins_with) or None,
                memory_limit_bytes=settings.memory_limit_bytes,
                continues=None if settings.goes_on_from is None else list(settings.goes_on_from.run_ids),
            )
        )

    def enter(self, phase: Phase, total: int | None = None, *, config: Config, done: int = 0) -> None:
        """Begin a phase of `total` items, `done` of which are complete; `config` is in force."""
        self._phase, self._total, self._done = phase, total, done
        if phase is Phase.WATCH:  # expected measurements that were not taken are not needed
            self._timed_total = self._timed
        self._tell(config)

    def expect(self, items: int) -> None:
        """Begin to estimate the time left; `items` is the expected number of measurements, at once or alone."""
        self._timed_since_s, self._timed, self._timed_total = self._clock(), 0, items

    def sample(self, sample: Sample) -> None:
        """Write the record of a window."""
        record = sample_record(sample, t_s=self.elapsed_s, run_id=self._settings.run_id, window=self._windows)
        self._windows += 1
        self._newest = sample
        self._reporter.write(record)

    def measured(self) -> None:
        """Count one of the expected measurements for the estimate of the time left."""
        self._timed += 1

    def advance(self, items: int = 1) -> None:
        """Count items of the phase and report progress."""
        self._done += items
        if self._newest is not None:
            self._tell(self._newest.config)

    def suggestion(self, suggestion: Suggestion, trial_id: int, *, designer: str, ask_ms: float) -> None:
        """Write the record of a suggestion."""
        self._reporter.write(
            SuggestionRecord(
                t_s=self.elapsed_s,
                run_id=self._settings.run_id,
                trial_id=trial_id,
                config=suggestion.config.to_json(),
                designer=designer,
                expected_score=finite(suggestion.expected_score),
                expected_std=finite(suggestion.expected_std),
                ask_ms=ask_ms,
            )
        )

    def result(self, result: Result, pairs: Sequence[Pair]) -> None:
        """Write the records of decision and result; for an unfinished run, which can be resumed, only an end record."""
        if result.is_complete:
            run_id = self._settings.run_id
            named = [{"baseline_step_ms": pair.baseline_ms, "challenger_step_ms": pair.challenger_ms} for pair in pairs]
            figures = finite(result.speedup), finite(result.ci_low), finite(result.ci_high)
            self._reporter.write(
                AdoptionRecord(self.elapsed_s, run_id, named, *figures, result.verdict, result.ci_level)
            )
            self._reporter.write(
                ResultRecord(
                    t_s=self.elapsed_s,
                    run_id=run_id,
                    config=result.config.to_json(),
                    adopted=result.adopted,
                    speedup=finite(result.speedup) if result.adopted else None,
                    cost_s=result.cost_s,
                    payback_steps=result.payback_steps,
                )
            )
        else:
            self._reporter.write(EndRecord(self.elapsed_s, self._settings.run_id, result.verdict))
        self._reporter.finished(result)

    def warn(self, text: str) -> None:
        """Pass a warning to people."""
        self._reporter.warned(text)

    def given_up(self, reason: str) -> None:
        """Write the record of a decision that somebody has given up for a reason of their own."""
        self._reporter.write(EndRecord(self.elapsed_s, self._settings.run_id, f"{GIVEN_UP}: {reason}"))

    def _tell(self, config: Config) -> None:
        newest = self._newest if self._newest is not None and self._newest.valid else None
        progress = Progress(
            phase=self._phase,
            sample=self._done,
            samples_total=self._total,
            score_bytes_per_s=newest.score_bytes_per_s if newest else None,
            steps_per_s=1e3 / newest.step_times.mean if newest else None,
            seconds_left=self._seconds_left(),
            config=config,
        )
        self._reporter.progress(progress)

    def _seconds_left(self) -> float | None:
        """Estimate the time left from the expected measurements, at most the rest of a budget of seconds."""
        limit_s = self._settings.max_seconds
        left_s = None if limit_s is None else max(limit_s - self.elapsed_s, 0.0)
        if self._timed == 0 or self._timed_total == 0:
            return left_s
        each_s = (self._clock() - self._timed_since_s) / self._timed
        expected_s = each_s * max(self._timed_total - self._timed, 0)
        return expected_s if left_s is None else min(expected_s, left_s)
