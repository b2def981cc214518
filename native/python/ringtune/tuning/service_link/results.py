# SPDX-License-Identifier: Apache-2.0
"""The tuning log's records as the results that the service takes: one per window, the same ids whoever reports it.

A log that is pushed after its job has reported therefore adds none. A window under the run's baseline counts as the
baseline phase, except in the warmup. The adoption test is one more result, with the challenger's last window.
The watch is not reported: it goes on for as long as the job.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ringtune.tuner import Phase
from ringtune.tuner.logs.reader import RunLog, sample_from_record
from ringtune.tuner.logs.records import AdoptionRecord, Record, RunRecord, SampleRecord
from ringtune.tuner.policy.continuous import LATER_SHARE
from ringtune.tuner.policy.settings import share_of

Json = Mapping[str, Any]

NAMESPACE = uuid.UUID("5b0c7a52-7f0e-5c59-9d3e-6d7a1c9a4f10")
"""The service's own, so that it finds the same ids in a whole log."""
ADOPTION_WINDOW = -1
"""Stands for the adoption test in a trial id."""
MIN_PAIRS = 2
MAX_TENSORS = 10_000
MAX_VERDICT = 500
RUNNING, ENDED_EARLY = "running", "ended_early"
NO_TIMES = {"median": None, "mad": None, "mean": None}


def job_uuid(run_id: str) -> str:
    """Return the UUID of a run's job: the run's id where it is a UUID, else one that is made of it."""
    try:
        return str(uuid.UUID(run_id))
    except ValueError:
        return str(uuid.uuid5(NAMESPACE, run_id))


def trial_uuid(run_id: str, window: int) -> str:
    """Return the UUID under which a window of a run is reported."""
    return str(uuid.uuid5(NAMESPACE, f"{run_id}:{window}"))


def study_of(run: RunRecord, gradient_bytes: Sequence[int] = ()) -> dict[str, Any]:
    """Return the study of a run, as `POST /v1/studies` takes it.

    Args:
        run: The run's first record.
        gradient_bytes: Size of each gradient of a step, where known; more than `MAX_TENSORS` are left out.
    """
    study: dict[str, Any] = {"key": run.key, "model_name": run.model_name, "search_space": run.search_space}
    is_told = 0 < len(gradient_bytes) <= MAX_TENSORS
    return {**study, "gradient_bytes": list(gradient_bytes)} if is_told else study


def facts_of(run: RunRecord, state: str = RUNNING, verdict: str | None = None) -> dict[str, Any]:
    """Return the facts of a run's job, as `PUT /v1/studies/{id}/jobs/{job_id}` takes them.

    Args:
        run: The run's first record.
        state: `running`, `ended_early`, or the decision.
        verdict: The decision in words, or None.
    """
    return {
        "job_id": job_uuid(run.run_id),
        "state": state,
        "verdict": None if verdict is None else verdict[:MAX_VERDICT],
        "name": run.job_name,
        "tags": run.tags or [],
        "commit": run.commit,
        "hardware_name": run.hardware_name,
        "machines": run.machines or [],
    }


def first_runs(runs: Sequence[RunLog]) -> list[RunLog]:
    """Return the first run of each job, from runs in their order: a job's later runs are no independent evidence."""
    first: list[RunLog] = []
    before: dict[str, RunLog] = {}
    for log in runs:
        key = "" if log.run is None else json.dumps(log.run.key, sort_keys=True)
        if not is_later_run(log, before.get(key)):
            first.append(log)
            before[key] = log
    return first


def is_later_run(log: RunLog, before: RunLog | None) -> bool:
    """Return whether a run is a later one of the job before it: a check, or a search after the watch saw a change.

    A later search begins from the config in force, or has the budget that later searches have. A log does not name its
    job, so that a job that was started with just that budget counts as a later run, too.

    Args:
        log: The run, which has its first record.
        before: The first run of the job before it that asks the same question, if there is one.
    """
    if log.run is None or before is None or before.run is None or before.result is None:
        return False
    if not any(sample.phase == Phase.SEARCH for sample in log.samples):
        return True
    in_force, first = before.result.config, before.run
    return (log.run.baseline == in_force != first.baseline) or _has_later_budget(log.run, first)


def _has_later_budget(run: RunRecord, first: RunRecord) -> bool:
    """Return whether the limits are a later search's share of the first one's."""
    for name in ("max_samples", "max_steps", "max_seconds"):
        allowed, budget = first.steps_budget.get(name), run.steps_budget.get(name)
        if isinstance(allowed, int | float) and budget != allowed:
            return bool(budget == share_of(allowed, LATER_SHARE))
    return False


class Results:
    """Turns the records of one run into results, as they come."""

    def __init__(self, run: RunRecord) -> None:
        """Begin with the run's first record."""
        self._baseline = run.baseline
        self._tested: dict[str, Any] | None = None

    def take(self, record: Record) -> Json | None:
        """Return the result that one more record completes, or None."""
        if isinstance(record, SampleRecord):
            if record.phase == Phase.WATCH:
                return None
            result = self._sample(record)
            if result["phase"] == Phase.ADOPTION and result["valid"]:
                self._tested = result
            return result
        return self._adoption(record) if isinstance(record, AdoptionRecord) else None

    def _sample(self, record: SampleRecord) -> dict[str, Any]:
        is_baseline = record.config == self._baseline and record.phase != Phase.WARMUP
        is_usable = sample_from_record(record).step_times.is_usable
        return {
            "trial_id": trial_uuid(record.run_id, record.window),
            "job_id": job_uuid(record.run_id),
            "run_id": record.run_id,
            "phase": Phase.BASELINE.value if is_baseline else record.phase,
            "config": record.config,
            "score_bytes_per_s": record.score_bytes_per_s,
            "step_ms": record.step_ms if is_usable else NO_TIMES,
            "steps": record.steps,
            "valid": record.valid,
            "reason": record.reason,
        }

    def _adoption(self, record: AdoptionRecord) -> Json | None:
        figures = {"speedup": record.speedup, "ci_low": record.ci_low, "ci_high": record.ci_high}
        if self._tested is None or None in figures.values() or len(record.pairs) < MIN_PAIRS:
            return None
        adoption = {**figures, "pairs": len(record.pairs), "ci_level": record.ci_level}
        return {**self._tested, "trial_id": trial_uuid(record.run_id, ADOPTION_WINDOW), "adoption": adoption}
