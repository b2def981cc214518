# SPDX-License-Identifier: Apache-2.0
"""Whole tuning logs: each sample becomes a result, under a trial id that follows from its run and window.

So a log that is pushed twice, or in a longer version, is stored once. Measurements under the run's baseline mark
the baseline, in whatever phase.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ringtune.service.errors import InvalidRequest, RunConflict
from ringtune.service.store import Database, reports, summaries
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.rows import RunRow
from ringtune.shared_service.rest_models import StoredResult, StoredRun
from ringtune.shared_service.rest_models.fields import MAX_TEXT
from ringtune.system.counts import counted
from ringtune.tuner import Config, Phase
from ringtune.tuner.logs.reader import RunLog, sample_from_record
from ringtune.tuner.logs.records import (
    SCHEMA,
    RecordError,
    RunRecord,
    SampleRecord,
    record_from_json,
    record_to_json,
)
from ringtune.tuner.priors.relevance import StudyKey

from .budgets import row_cost, spend
from .canonical import canonical, digest
from .job_owners import claim_all
from .jobs import Jobs
from .policy import ServiceLimits
from .run_facts import facts_of
from .spaces import with_every_knob
from .studies import Studies
from .submission import MAX_ID, check_id
from .values import PairedTestResult, ReportedResult, StudyRecord

Named: TypeAlias = tuple[str, ReportedResult]
TellBatch: TypeAlias = Callable[[str, Sequence[Named]], tuple[StoredResult, ...]]

NAMESPACE = uuid.UUID("5b0c7a52-7f0e-5c59-9d3e-6d7a1c9a4f10")
MAX_BATCH = 1000
MIN_PAIRS = 2
ADOPTION_WINDOW = -1
"""Stands for the adoption test in a trial id."""


def trial_id_of(run_id: str, window: int) -> str:
    """Return the trial id of a log's window: the same whoever reports it."""
    return str(uuid.uuid5(NAMESPACE, f"{run_id}:{window}"))


@dataclass(frozen=True)
class Reporting:
    """The sender of a log: the job, whether it was named apart from its runs, and the token."""

    job_id: str
    is_named: bool
    token_id: str | None


class RunLogs:
    """Takes logs apart."""

    def __init__(self, database: Database, studies: Studies, tell_batch: TellBatch, limits: ServiceLimits) -> None:
        """Store results by `tell_batch`; the runs, and their jobs' facts, in `database`."""
        self._limits = limits
        self._database = database
        self._studies = studies
        self._jobs = Jobs(database, limits)
        self._tell_batch = tell_batch

    def take(self, runs: Sequence[RunLog], job_id: str | None, token_id: str | None) -> tuple[StoredRun, ...]:
        """Store the runs of a log; see `Ledger.take_runs`."""
        if not any(log.run for log in runs):
            raise InvalidRequest("there is no run in the log: no valid record of type 'run'")
        baselines: dict[str, Config] = {}
        named = job_id is not None
        stored = tuple(self._take_one(log, Reporting(job_id or log.run_id, named, token_id), baselines) for log in runs)
        self._tell_of_jobs(runs, stored, job_id, token_id)
        return stored

    def _take_one(self, log: RunLog, by: Reporting, baselines: dict[str, Config]) -> StoredRun:
        """Store one run; `baselines` has the job's own by study: that which is stored, or that of its first run."""
        if log.run is None:
            return StoredRun(
                run_id=log.run_id, study_id=None, reason="the run's first record is missing; nothing was stored"
            )
        header = canonical(record_to_json(log.run))
        job_ids = {by.job_id, as_job_id(log.run_id)}  # a run's id is its job's, so that no other token takes it
        with self._database.writing(reports.LOCK) as connection:
            claim_all(connection, dict.fromkeys(job_ids, by.token_id), self._limits)
        known = self._known(log.run_id, header)
        study = self._study(log.run, by.token_id)
        results = _results(log, log.run, by)
        if by.is_named and self._is_beside_another(log.run, study.study_id, by.job_id, baselines):
            results = [named for named in results if named[1].adoption is None]
        stored: list[StoredResult] = []
        for start in range(0, len(results), MAX_BATCH):
            stored += self._tell_batch(study.study_id, results[start : start + MAX_BATCH])
        if known is None:
            self._remember(log.run_id, study.study_id, by, header, len(results))
        return _summary(log.run_id, study.study_id, stored)

    def _tell_of_jobs(
        self, runs: Sequence[RunLog], stored: Sequence[StoredRun], job_id: str | None, token_id: str | None
    ) -> None:
        """Keep the facts in the first run of each job: the job's later runs answer another question."""
        told: set[tuple[str, str]] = set()
        for log, found in zip(runs, stored, strict=True):
            job = (found.study_id or "", job_id or log.run_id)
            if found.study_id is not None and job not in told:
                told.add(job)
                self._jobs.put(*job, facts_of(log), token_id)

    def _known(self, run_id: str, header: str) -> RunRow | None:
        with self._database.looking() as connection:
            known = reports.run(connection, run_id)
        if known is not None and known.body_digest != digest(header):
            raise RunConflict(f"run {run_id} began otherwise in the log that is stored; it stays as it is")
        return known

    def _is_beside_another(self, run: RunRecord, study_id: str, job_id: str, baselines: dict[str, Config]) -> bool:
        """Tell whether a run's paired test is beside another baseline than its job's own, which is noted."""
        begun_with = Config(with_every_knob(str(run.key.get("target")), run.baseline))
        if study_id not in baselines:
            baselines[study_id] = self._stored_baseline(study_id, job_id) or begun_with
        return baselines[study_id] != begun_with

    def _stored_baseline(self, study_id: str, job_id: str) -> Config | None:
        """Return the job's own baseline, None if it reported none yet."""
        with self._database.looking() as connection:
            rows = summaries.of_jobs(connection, {(study_id, job_id, summaries.BASELINE)})
        return Config(rows[0].baseline_values or {}) if rows else None

    def _study(self, run: RunRecord, token_id: str | None) -> StudyRecord:
        try:
            key = StudyKey(
                hardware=str(run.key["hardware"]),
                model=str(run.key["model"]),
                layout=tuple(run.key["layout"]),
                target=str(run.key["target"]),
                surface_version=run.key["surface_version"],
            )
        except (KeyError, TypeError) as error:
            raise InvalidRequest(f"run {run.run_id} has no key of a study: {str(run.key)[:200]}") from error
        name = run.model_name[:200] if run.model_name else None
        return self._studies.find_or_create(key, space_json=run.search_space, model_name=name, token_id=token_id)

    def _remember(self, run_id: str, study_id: str, by: Reporting, header: str, results: int) -> None:
        with self._database.writing(reports.LOCK) as connection:
            if reports.run(connection, run_id) is None:
                row = RunRow(
                    run_id=run_id,
                    study_id=study_id,
                    job_id=by.job_id,
                    token_id=by.token_id,
                    body_digest=digest(header),
                    header=header,
                    results=results,
                    received_unix_s=now_unix_s(connection),
                )
                spend(connection, by.token_id, self._limits, row_cost(header))
                reports.add_run(connection, row)


def as_job_id(run_id: str) -> str:
    """Return a run's id as its job's: as a UUID is written, where it is one."""
    try:
        return str(uuid.UUID(run_id))
    except ValueError:
        return run_id


def collect_runs(records: Iterable[Mapping[str, Any]]) -> tuple[RunLog, ...]:
    """Return the runs of a log in the order in which they begin; other lines than records are left out.

    So is a record whose run id is none: its run cannot be in the log.

    Raises:
        InvalidRequest: If the log is of another schema: read as one of ours, its records could mean something else. Or
            if a run begins whose id is none.
    """
    runs: dict[str, RunLog] = {}
    for data in records:
        _check_schema(data)
        try:
            record = record_from_json(dict(data))
            check_id("run_id", record.run_id)
        except RecordError:
            continue
        except InvalidRequest:
            if isinstance(record, RunRecord):
                raise
            continue
        runs.setdefault(record.run_id, RunLog(record.run_id)).add(record)
    return tuple(runs.values())


def _check_schema(data: Mapping[str, Any]) -> None:
    schema = data.get("schema", SCHEMA)
    if data.get("type") == "run" and isinstance(schema, int) and schema != SCHEMA:
        raise InvalidRequest(
            f"run {str(data.get('run_id'))[:MAX_ID]!r} is in a log of schema {str(schema)[:20]}, and this service "
            f"reads schema {SCHEMA}: it is not of the version that wrote the log; push it to one that is"
        )


def _results(log: RunLog, run: RunRecord, by: Reporting) -> list[Named]:
    """Return the results of a run, and its adoption as one more: with the last window of the challenger."""
    results = [(trial_id_of(run.run_id, record.window), _result(record, run, by)) for record in log.samples]
    found = _adoption(log)
    tested = [result for _, result in results if result.phase is Phase.ADOPTION and result.valid]
    if found is not None and tested:
        results.append((trial_id_of(run.run_id, ADOPTION_WINDOW), replace(tested[-1], adoption=found)))
    return results


def _adoption(log: RunLog) -> PairedTestResult | None:
    record = log.adoption
    if record is None or record.speedup is None or record.ci_low is None or record.ci_high is None:
        return None
    if len(record.pairs) < MIN_PAIRS:
        return None
    return PairedTestResult(record.speedup, record.ci_low, record.ci_high, len(record.pairs), record.ci_level)


def _result(record: SampleRecord, run: RunRecord, by: Reporting) -> ReportedResult:
    sample = sample_from_record(record)
    is_baseline = sample.config == Config(run.baseline) and sample.phase is not Phase.WARMUP
    has_score = record.score_bytes_per_s is not None
    return ReportedResult(
        config=sample.config,
        job_id=by.job_id,
        token_id=by.token_id,
        score_bytes_per_s=sample.score_bytes_per_s if has_score else None,
        step_ms=sample.step_times if sample.step_times.is_usable else None,
        steps=sample.steps,
        valid=record.valid,
        reason=sample.reason,
        phase=Phase.BASELINE if is_baseline else sample.phase,
        run_id=run.run_id,
    )


def _summary(run_id: str, study_id: str, stored: Sequence[StoredResult]) -> StoredRun:
    def count(*statuses: str) -> int:
        return sum(item.status in statuses for item in stored)

    refused = [item.reason for item in stored if item.status in {"refused", "conflict"}]
    reason = f"not stored: {counted(len(refused), 'result')}; the first: {refused[0]}" if refused else None
    return StoredRun(
        run_id=run_id,
        study_id=study_id,
        new=count("new", "late"),
        same=count("same"),
        quarantined=count("quarantined"),
        reason=None if reason is None else reason[:MAX_TEXT],
    )
