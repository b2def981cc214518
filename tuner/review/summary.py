# SPDX-License-Identifier: Apache-2.0
"""What a log says, as plain data: the verdict first, then what was tried, then what could not be read."""

import os
from dataclasses import asdict, dataclass
from typing import Any

from ringtune.tuner.config import Config
from ringtune.tuner.log_reader import BadLine, RunLog, read_log
from ringtune.tuner.records import AdoptionRecord, SampleRecord
from ringtune.tuner.sample import Phase

UNFINISHED = "unfinished: the log ends before the tuning run did"
NO_ADOPTION = AdoptionRecord(0.0, "", [], None, None, None, UNFINISHED)


@dataclass(frozen=True)
class TriedSample:
    """One window of the run, void ones included."""

    trial_id: int
    phase: str
    config: Config
    score_bytes_per_s: float | None
    step_ms: float | None
    steps: int
    valid: bool
    reason: str | None
    expected_score: float | None


@dataclass(frozen=True)
class RunReview:
    """One tuning run.

    Attributes:
        run_id: The run's name.
        verdict: The decision and its reason.
        is_complete: Whether the run came to its end.
        adopted: Whether the chosen config was shown to beat the baseline.
        baseline: The config without tuning, None where the run's first line was lost.
        chosen: The config in force at the end, or None.
        speedup: Measured speed-up of the challenger as a fraction, or None without a test.
        ci_low: Lower end of its 95 % interval.
        ci_high: Upper end.
        pairs: Number of adoption pairs.
        cost_s: Seconds lost while tuning, or None.
        payback_steps: Steps that win the cost back, or None.
        unix_time_s: When the run began, or None.
        seconds: From the run's begin to its last record.
        tried: The windows in the order they were measured.
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


@dataclass(frozen=True)
class Review:
    """A log: its runs in order, and the lines that could not be read."""

    path: str
    runs: tuple[RunReview, ...]
    bad_lines: tuple[BadLine, ...]
    bad_line_count: int


def review_log(path: str | os.PathLike[str]) -> Review:
    """Read a tuning log and sum it up.

    Raises:
        OSError: If the file cannot be read.
    """
    contents = read_log(path)
    runs = tuple(_review_run(run) for run in contents.runs)
    return Review(os.fspath(path), runs, contents.bad_lines, contents.bad_line_count)


def to_json(review: Review) -> dict[str, Any]:
    """Return the review as plain data, ready for `json.dumps`."""
    data = asdict(review)
    for run, plain in zip(review.runs, data["runs"], strict=True):
        plain["baseline"] = run.baseline.to_json() if run.baseline else None
        plain["chosen"] = run.chosen.to_json() if run.chosen else None
        plain["tried"] = [asdict(sample) | {"config": sample.config.to_json()} for sample in run.tried]
    return data


def _review_run(log: RunLog) -> RunReview:
    expected = {suggestion.trial_id: suggestion.expected_score for suggestion in log.suggestions}
    adoption, result = log.adoption or NO_ADOPTION, log.result
    return RunReview(
        run_id=log.run_id,
        verdict=adoption.verdict,
        is_complete=result is not None,
        adopted=result is not None and result.adopted,
        baseline=Config(log.run.baseline) if log.run else None,
        chosen=Config(result.config) if result else None,
        speedup=adoption.speedup,
        ci_low=adoption.ci_low,
        ci_high=adoption.ci_high,
        pairs=len(adoption.pairs),
        cost_s=result.cost_s if result else None,
        payback_steps=result.payback_steps if result else None,
        unix_time_s=log.run.unix_time_s if log.run else None,
        seconds=_seconds(log),
        tried=tuple(_tried(record, expected) for record in log.samples),
    )


def _seconds(log: RunLog) -> float:
    last = (*log.samples[-1:], *log.suggestions[-1:], log.adoption, log.result)
    return max((record.t_s for record in last if record is not None), default=0.0)


def _tried(record: SampleRecord, expected: dict[int, float | None]) -> TriedSample:
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
    )
