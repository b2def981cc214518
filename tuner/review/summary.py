# SPDX-License-Identifier: Apache-2.0
"""What a log says of a tuning run, as plain data: the decision, what was tried, in what order, and what it cost.

Nothing here is inferred; `analysis` does that.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import geometric_mean
from typing import Any

from ringtune.tuner.logs.reader import BadLine, RunLog
from ringtune.tuner.logs.records import OLD_CI_LEVEL, AdoptionRecord, Json, ResultRecord, RunRecord, SampleRecord
from ringtune.tuner.sample import Phase
from ringtune.tuner.space.config import Config

UNFINISHED = "unfinished: the log ends before the tuning run did"
NO_ADOPTION = AdoptionRecord(0.0, "", [], None, None, None, UNFINISHED)

RINGTUNE, HOROVOD, BAGUA = "ringtune", "horovod", "bagua"


@dataclass(frozen=True)
class TriedSample:
    """One window of the run, void ones included; of a foreign log, a row.

    Attributes:
        trial_id: The trial it belongs to; of a foreign log, the row's number.
        phase: The phase of the run.
        config: The config it was measured under.
        score_bytes_per_s: Bytes reduced per second, or None.
        step_ms: Median step time, or None where the log has none.
        steps: Steps measured; 0 where the log does not say.
        valid: Whether the window counts.
        reason: Why it does not.
        expected_score: What the designer expected, bytes per second, or None.
        t_s: When it was written, seconds since the run began; 0 where the log does not say.
        mad_ms: Median absolute deviation of its step times, or None.
        line: The line of a foreign log, else 0.
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

    @property
    def log_time(self) -> float | None:
        """ln(step time in ms), or where there is none ln(seconds per byte); None where the window does not count."""
        if not self.valid:
            return None
        if self.step_ms is not None:
            return math.log(self.step_ms) if self.step_ms > 0 else None
        score = self.score_bytes_per_s
        return -math.log(score) if score is not None and score > 0 else None

    @property
    def is_evidence(self) -> bool:
        """Whether the window says how fast its config is beside others: not while warming up, nor long after."""
        return self.log_time is not None and self.phase not in {Phase.WARMUP, Phase.WATCH}


@dataclass(frozen=True)
class Thought:
    """The designer at work: it answered at `t_s` after `ask_ms`."""

    trial_id: int
    designer: str
    t_s: float
    ask_ms: float


@dataclass(frozen=True)
class RunReview:
    """One tuning run.

    Attributes:
        run_id: The run's name.
        verdict: The decision and its reason.
        is_complete: Whether the run came to its end.
        adopted: Whether the chosen config was shown to beat the baseline.
        baseline: The config without tuning, None where the log does not have it.
        chosen: The config in force at the end, or None.
        speedup: Measured speed-up of the challenger as a fraction, or None without a test.
        ci_low: Lower end of its interval.
        ci_high: Upper end.
        pairs: Number of adoption pairs.
        cost_s: Seconds lost while tuning, or None.
        payback_steps: Steps that win the cost back, or None.
        unix_time_s: When the run began, or None.
        seconds: From the run's begin to its result, or to its last record; 0 where the log has no times.
        tried: The windows in the order they were measured.
        source: Who wrote the log: ringtune, horovod or bagua.
        target: What was tuned.
        model_name: What people call the model, or None.
        ranks_per_host: The layout, where the log has it.
        budget: The limits that the run was given.
        search_space: Its description, or None.
        pair_step_ms: Typical step times of baseline and challenger of each adoption pair.
        thoughts: When the designer worked, and for how long.
        windows_left_out: Windows that were counted only, because the log is huge.
        ci_level: Level of the interval, a fraction; older logs have another one than newer.
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
        """Whether the run says anything: it came to a decision, or has a window that is evidence."""
        return self.is_complete or any(sample.is_evidence for sample in self.tried)

    @property
    def steps_per_s(self) -> tuple[float | None, float | None]:
        """Steps per second under the baseline, and under what was adopted in its place; None where not known.

        The first is the geometric mean over the adoption test's pairs, or over the baseline's windows without a test;
        the second is what the speed-up makes of it, for pairs count by how little their steps scatter.
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
    def has_step_times(self) -> bool:
        """Whether the log has step times; else speeds are scores."""
        return any(sample.step_ms is not None for sample in self.tried)

    def windows_of(self, config: Config | None) -> list[TriedSample]:
        """Return the windows of a config that are evidence."""
        return [sample for sample in self.tried if sample.config == config and sample.is_evidence]


@dataclass(frozen=True)
class Review:
    """A log: its runs in order, and the lines that could not be read; `runs_left_out` are older ones of a huge log."""

    path: str
    runs: tuple[RunReview, ...]
    bad_lines: tuple[BadLine, ...]
    bad_line_count: int
    runs_left_out: int = 0

    @property
    def telling_runs(self) -> tuple[RunReview, ...]:
        """The runs that measured something; where none has, the newest alone."""
        return tuple(run for run in self.runs if run.has_measured) or self.runs[-1:]


def review_run(log: RunLog, windows_left_out: int = 0) -> RunReview:
    """Sum up the records of a run."""
    expected = {suggestion.trial_id: suggestion.expected_score for suggestion in log.suggestions}
    adoption = log.adoption or NO_ADOPTION
    return RunReview(
        run_id=log.run_id,
        verdict=adoption.verdict if log.adoption or log.end is None else log.end.verdict,
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
        **_ending(log.result),
    )


def _beginning(run: RunRecord | None) -> dict[str, Any]:
    """Return what a run's first line says, as far as it is there."""
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


def _ending(result: ResultRecord | None) -> dict[str, Any]:
    """Return what a run's last line says; an unfinished one has none."""
    if result is None:
        return {"is_complete": False, "adopted": False, "chosen": None, "cost_s": None, "payback_steps": None}
    return {
        "is_complete": True,
        "adopted": result.adopted,
        "chosen": Config(result.config),
        "cost_s": result.cost_s,
        "payback_steps": result.payback_steps,
    }


def _seconds(log: RunLog) -> float:
    """Return when the run ended; it may have watched what it adopted for hours afterwards."""
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
