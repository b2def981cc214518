# SPDX-License-Identifier: Apache-2.0
"""Summary of a tuning run, as plain data from its log: the decision, the windows in order, and the cost.

This module infers nothing; `analysis` does that.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import Any

from ringtune.tuner.logs.reader import BadLine, RunLog
from ringtune.tuner.logs.records import OLD_CI_LEVEL, AdoptionRecord, Json, RunRecord, SampleRecord
from ringtune.tuner.sample import Phase
from ringtune.tuner.space.config import Config

UNFINISHED = "unfinished: the log ends before the tuning run did"
NO_ADOPTION = AdoptionRecord(0.0, "", [], None, None, None, UNFINISHED)

RINGTUNE, HOROVOD, BAGUA = "ringtune", "horovod", "bagua"


@dataclass(frozen=True)
class TriedSample:
    """One window of the run, possibly void; in a foreign log, a row.

    Attributes:
        trial_id: Number of the trial; in a foreign log, of the row.
        phase: Phase of the run.
        config: Config that was measured.
        score_bytes_per_s: Bytes reduced per second, or None.
        step_ms: Median step time, milliseconds; None if the log has none.
        steps: Number of steps measured; 0 if the log has no number.
        valid: Whether the window counts.
        reason: Reason why the window is void, or None.
        expected_score: Score that the designer expected, bytes per second, or None.
        t_s: Time of the record, seconds since the run began; 0 if the log has no times.
        mad_ms: Median absolute deviation of the step times, milliseconds, or None.
        line: Line number in a foreign log, else 0.
        mean_ms: Mean step time, milliseconds, or None.
        drift_variance: Variance of ln(step time) from a drift that was removed; see `levelling`.
    """

    trial_id: int
    phase: str
    config: Config
    score_bytes_per_s: float | None
    step_ms: float | None
    steps: int
    valid: bool
    reason: str | None
    expected_score: float | None
    t_s: float = 0.0
    mad_ms: float | None = None
    line: int = 0
    mean_ms: float | None = None
    drift_variance: float = 0.0

    @property
    def log_time(self) -> float | None:
        """ln(step time in ms), or ln(seconds per byte) without step times; None if the window does not count."""
        if not self.valid:
            return None
        if self.step_ms is not None:
            return math.log(self.step_ms) if self.step_ms > 0 else None
        score = self.score_bytes_per_s
        return -math.log(score) if score is not None and score > 0 else None

    @property
    def is_evidence(self) -> bool:
        """True if the window is evidence of its config's speed: valid, and part of neither warmup nor watch."""
        return self.log_time is not None and self.phase not in {Phase.WARMUP, Phase.WATCH}


@dataclass(frozen=True)
class Thought:
    """Answer of the designer, given at `t_s` after `ask_ms` of work."""

    trial_id: int
    designer: str
    t_s: float
    ask_ms: float


@dataclass(frozen=True)
class RunReview:
    """One tuning run.

    Attributes:
        run_id: Identifier of the run.
        verdict: The decision and its reason.
        is_complete: Whether the run reached its end.
        adopted: Whether the chosen config was shown to beat the baseline.
        baseline: The config without tuning; None if the log does not record it.
        chosen: The config in force at the end, or None.
        speedup: Measured speed-up of the challenger as a fraction, or None without a test.
        ci_low: Lower end of the interval of the speed-up, or None.
        ci_high: Upper end of the interval, or None.
        pairs: Number of adoption pairs.
        cost_s: Seconds lost while tuning, or None.
        payback_steps: Steps after which the gain has repaid the cost, or None.
        unix_time_s: Start of the run, Unix time in seconds, or None.
        seconds: Time from the start to the result, or to the last record; 0 if the log has no times.
        tried: The windows in the order of measurement.
        source: Tuner that wrote the log: ringtune, horovod or bagua.
        target: Name of the tuned system.
        model_name: Name that people give to the model, or None.
        ranks_per_host: The layout; empty if the log does not record it.
        budget: Limits of the run.
        search_space: Description of the search space, or None.
        pair_step_ms: Typical step times of baseline and challenger in each adoption pair.
        thoughts: Answers of the designer, with their times.
        windows_left_out: Number of windows that were only counted, because the log is huge.
        ci_level: Level of the interval, a fraction; it differs between older and newer logs.
    """

    run_id: str
    verdict: str
    is_complete: bool
    adopted: bool
    baseline: Config | None
    chosen: Config | None
    speedup: float | None
    ci_low: float | None
    ci_high: float | None
    pairs: int
    cost_s: float | None
    payback_steps: int | None
    unix_time_s: float | None
    seconds: float
    tried: tuple[TriedSample, ...]
    source: str = RINGTUNE
    target: str = RINGTUNE
    model_name: str | None = None
    ranks_per_host: tuple[int, ...] = ()
    budget: Mapping[str, Any] = field(default_factory=dict)
    search_space: Json | None = None
    pair_step_ms: tuple[tuple[float, float], ...] = ()
    thoughts: tuple[Thought, ...] = ()
    windows_left_out: int = 0
    ci_level: float = OLD_CI_LEVEL

    @property
    def has_measured(self) -> bool:
        """True if the run reached a decision, or has a window that counts as evidence."""
        return self.is_complete or any(sample.is_evidence for sample in self.tried)

    @property
    def steps_per_s(self) -> tuple[float | None, float | None]:
        """Steps per second under the baseline and under the adopted config; None if unknown.

        The first is the geometric mean over the adoption test's pairs or, without a test, over the baseline's windows.
        The second is the first times the measured speed-up, in which pairs are weighed by the scatter of their steps.
        """
        times = [baseline for baseline, _ in self.pair_step_ms]
        if not times:
            times = [s.step_ms for s in self.windows_of(self.baseline) if s.step_ms is not None and s.step_ms > 0]
        if not times:
            return None, None
        before = 1e3 / geometric_mean(times)
        is_gain_known = self.adopted and self.speedup is not None
        return before, before * (1.0 + (self.speedup or 0.0)) if is_gain_known else None

    @property
    def steps(self) -> int:
        """Steps measured in all windows until the decision, void ones included."""
        return sum(sample.steps for sample in self.tried if sample.phase != Phase.WATCH)

    @property
    def tested(self) -> Config | None:
        """Config whose paired test the run's interval is of; None without one."""
        if None in {self.speedup, self.ci_low, self.ci_high}:
            return None
        if self.adopted:
            return self.chosen
        pairs = (sample.config for sample in reversed(self.tried) if sample.phase == Phase.ADOPTION)
        return next((config for config in pairs if config != self.baseline), None)

    @property
    def bytes_per_step(self) -> float | None:
        """Bytes reduced per step, from the windows' scores and mean step times; None without them."""
        sizes = [
            sample.score_bytes_per_s * 1e-3 * (sample.mean_ms or sample.step_ms or 0.0)
            for sample in self.tried
            if sample.valid and sample.score_bytes_per_s is not None
        ]
        return median(sizes) if sizes and median(sizes) > 0 else None

    @property
    def has_step_times(self) -> bool:
        """True if the log has step times; otherwise speeds are scores."""
        return any(sample.step_ms is not None for sample in self.tried)

    def windows_of(self, config: Config | None) -> list[TriedSample]:
        """Return the windows of a config that count as evidence."""
        return [sample for sample in self.tried if sample.config == config and sample.is_evidence]


@dataclass(frozen=True)
class Review:
    """Review of a log: its runs in order, and its unreadable lines.

    Attributes:
        path: Path of the log.
        runs: Its runs.
        bad_lines: The first of its unreadable lines.
        bad_line_count: Number of all of them.
        runs_left_out: Number of older runs of a huge log.
        is_table: Whether it has the header of Horovod's or Bagua's table.
    """

    path: str
    runs: tuple[RunReview, ...]
    bad_lines: tuple[BadLine, ...]
    bad_line_count: int
    runs_left_out: int = 0
    is_table: bool = False

    @property
    def is_no_log(self) -> bool:
        """True for a file of something else: it has lines, and none belongs to a tuning log."""
        return not self.runs and not self.is_table and self.bad_line_count > 0

    @property
    def telling_runs(self) -> tuple[RunReview, ...]:
        """Runs that measured something; the newest run if none has."""
        return tuple(run for run in self.runs if run.has_measured) or self.runs[-1:]


def review_run(log: RunLog, windows_left_out: int = 0) -> RunReview:
    """Summarise the records of a run."""
    expected = {suggestion.trial_id: suggestion.expected_score for suggestion in log.suggestions}
    adoption = log.adoption or NO_ADOPTION
    return RunReview(
        run_id=log.run_id,
        verdict=_verdict(log, adoption),
        speedup=adoption.speedup,
        ci_low=adoption.ci_low,
        ci_high=adoption.ci_high,
        ci_level=adoption.ci_level,
        pairs=len(adoption.pairs),
        seconds=_seconds(log),
        tried=tuple(_tried(record, expected) for record in log.samples),
        pair_step_ms=_pairs(adoption),
        thoughts=tuple(Thought(s.trial_id, s.designer, s.t_s, s.ask_ms) for s in log.suggestions),
        windows_left_out=windows_left_out,
        **_beginning(log.run),
        **_ending(log),
    )


def _verdict(log: RunLog, adoption: AdoptionRecord) -> str:
    """Return the last word of a run: of whoever ended it, or gave its decision up, and else of the adoption test."""
    if log.end is None:
        return adoption.verdict
    return log.end.verdict if log.adoption is None else f"{log.end.verdict}. Before that: {adoption.verdict}"


def _beginning(run: RunRecord | None) -> dict[str, Any]:
    """Return the fields from a run's first record, if the log has it."""
    if run is None:
        return {"baseline": None, "unix_time_s": None}
    return {
        "baseline": Config(run.baseline),
        "unix_time_s": run.unix_time_s,
        "target": str(run.key.get("target", RINGTUNE)),
        "model_name": run.model_name,
        "ranks_per_host": _ranks_per_host(run.layout),
        "budget": run.steps_budget,
        "search_space": run.search_space,
    }


def _ending(log: RunLog) -> dict[str, Any]:
    """Return the fields from a run's result; an unfinished run has none, and one that was given up its baseline."""
    result = log.result
    if result is None:
        return {"is_complete": False, "adopted": False, "chosen": None, "cost_s": None, "payback_steps": None}
    return {
        "is_complete": True,
        "adopted": result.adopted and log.end is None,
        "chosen": Config(result.config if log.end is None or log.run is None else log.run.baseline),
        "cost_s": result.cost_s,
        "payback_steps": result.payback_steps,
    }


def _seconds(log: RunLog) -> float:
    """Return the time of the run's end, without the watch that may follow for hours."""
    if log.result is not None:
        return log.result.t_s
    last = (*log.samples[-1:], *log.suggestions[-1:], log.adoption, log.end)
    return max((record.t_s for record in last if record is not None), default=0.0)


def _tried(record: SampleRecord, expected: Mapping[int, float | None]) -> TriedSample:
    return TriedSample(
        trial_id=record.trial_id,
        phase=record.phase,
        config=Config(record.config),
        score_bytes_per_s=record.score_bytes_per_s,
        step_ms=record.step_ms["median"],
        steps=record.steps,
        valid=record.valid,
        reason=record.reason,
        expected_score=expected.get(record.trial_id) if record.phase == Phase.SEARCH else None,
        t_s=record.t_s,
        mad_ms=record.step_ms["mad"],
        mean_ms=record.step_ms["mean"],
    )


def _pairs(adoption: AdoptionRecord) -> tuple[tuple[float, float], ...]:
    """Return the pairs whose two step times are numbers above zero."""
    found = [(pair.get("baseline_step_ms"), pair.get("challenger_step_ms")) for pair in adoption.pairs]
    return tuple((float(a), float(b)) for a, b in found if _is_time(a) and _is_time(b))  # type: ignore[arg-type]


def _is_time(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0  # type: ignore[arg-type, operator]


def _ranks_per_host(layout: Json) -> tuple[int, ...]:
    ranks = layout.get("ranks_per_host", ())
    return tuple(ranks) if isinstance(ranks, list) and all(isinstance(count, int) for count in ranks) else ()
