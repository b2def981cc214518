# SPDX-License-Identifier: Apache-2.0
"""Statuses of results in the writer's transaction: new, the same again, late, quarantined, or a conflict."""

import math
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection

from ringtune.service.errors import JobConflict, QuotaExceeded, ResultConflict, StudyNotFound, TrialConflict
from ringtune.service.store import jobs, leases, reports, studies
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.keys import Key
from ringtune.service.store.rows import NewReport, Status, StoredReport, TrialRow
from ringtune.service.store.summary_rows import JobSummary
from ringtune.shared_service.rest_models import StoredResult
from ringtune.tuner import Phase

from .budgets import Budgets, row_cost
from .evidence import mean_log_step
from .job_owners import conflict_of
from .plausibility import is_possible
from .policy import ServiceLimits
from .submission import Submission
from .summary_updates import Changes
from .writer import Outcome


class ResultStore:
    """Stores submissions of any studies. It holds no state between transactions."""

    def __init__(self, policy: ServiceLimits) -> None:
        """Take the limits."""
        self._policy = policy

    def store(self, connection: Connection, submissions: Sequence[Submission]) -> list[Outcome]:
        """Store new results and update the derived rows; one outcome per submission, in their order."""
        now = now_unix_s(connection)
        there = studies.existing(connection, {submission.study_id for submission in submissions})
        keys: list[Key] = [(submission.study_id, submission.trial_id) for submission in submissions]
        known = reports.stored(connection, keys)
        asked = leases.trials_of(connection, keys)
        budgets = Budgets.load(connection, {submission.row.token_id for submission in submissions}, self._policy)
        owners = jobs.claim(connection, _tokens(submissions, there), now, budgets.may_begin)
        changes = Changes.load(connection, [submission.row for submission in submissions])
        new: dict[Key, NewReport] = {}
        outcomes: list[Outcome] = []
        for key, submission in zip(keys, submissions, strict=True):
            refusal = _refusal(submission, there, owners, budgets)
            if (refusal := refusal or _lack(submission, known.get(key), budgets)) is not None:
                outcomes.append(refusal)
                continue
            outcome, row = self._judge(submission, known.get(key), asked.get(key), changes, now)
            outcomes.append(outcome)
            if row is not None:
                new[key] = known[key] = row
        reports.add(connection, list(new.values()))
        budgets.save(connection)
        leases.complete(connection, list(new.keys() & asked.keys()))
        changes.save(connection, self._policy.max_speedup)
        return outcomes

    def _judge(
        self, submission: Submission, known: StoredReport | None, trial: TrialRow | None, changes: Changes, now: float
    ) -> tuple[Outcome, NewReport | None]:
        """Return the outcome, and the row to insert if there is one."""
        if known is not None:
            return _again(submission, known), None
        if trial is not None and trial.job_id != submission.job_id:
            return TrialConflict(f"trial {submission.trial_id} was asked for by job {trial.job_id}"), None
        status: Status = "new"
        reason = self._doubt(submission, changes)
        if reason is not None:
            status = "quarantined"
        elif trial is not None and _is_late(submission, trial, now):
            status, reason = "late", "the lease had ended: the config may be measured by another job too"
        row = submission.row.judged(status, reason, now)
        changes.add(row)
        return StoredResult(trial_id=submission.trial_id, status=status, reason=reason), row

    def _doubt(self, submission: Submission, changes: Changes) -> str | None:
        """Return why a result is quarantined: for itself, or beside other reports of the same job."""
        if submission.suspicion is not None:
            return submission.suspicion
        row, limit = submission.row, self._policy.max_configs_per_job
        if changes.is_other_token(row):
            return "the job's earlier results came with another token, or before tokens were kept with results"
        if row.phase == Phase.BASELINE.value and row.valid and changes.is_other_baseline(row):
            return "the job's baseline is another config: that which it reported first"
        if changes.other_configs(row) >= limit:
            return f"the job has measured {limit} other configs of this study, more than a search takes"
        return _doubt_beside(changes.baseline(row), row, self._policy.max_speedup)


def _doubt_beside(baseline: JobSummary | None, row: NewReport, max_speedup: float) -> str | None:
    """Return why a step time is doubted beside the job's own baseline."""
    expected = None if baseline is None else mean_log_step(baseline)
    if expected is None or row.median_step_ms is None or not row.valid:
        return None
    if is_possible(expected - math.log(row.median_step_ms), max_speedup):
        return None
    return (
        f"a median step of {row.median_step_ms:.4g} ms is more than {1 + max_speedup:g} times away from the job's "
        "own baseline"
    )


def _tokens(submissions: Sequence[Submission], there: Collection[str]) -> dict[str, str | None]:
    """Return the token that uses each job of the studies that exist: the first that names it."""
    tokens: dict[str, str | None] = {}
    for submission in submissions:
        if submission.study_id in there:
            tokens.setdefault(submission.job_id, submission.row.token_id)
    return tokens


def _refusal(
    submission: Submission, there: Collection[str], owners: Mapping[str, str | None], budgets: Budgets
) -> StudyNotFound | JobConflict | QuotaExceeded | None:
    """Return why a submission is none of its study's, or of its job's, or its job cannot begin; None where it is."""
    if submission.study_id not in there:
        return StudyNotFound(f"study {submission.study_id} was deleted; nothing was stored")
    if submission.job_id not in owners:
        return budgets.no_more_jobs(submission.row.token_id)
    return conflict_of(submission.job_id, submission.row.token_id, owners)


def _lack(submission: Submission, known: StoredReport | None, budgets: Budgets) -> QuotaExceeded | None:
    """Take a new row from its token's budget; return why it does not suffice."""
    return None if known is not None else budgets.spend(submission.row.token_id, row_cost(submission.row.config))


def _again(submission: Submission, known: StoredReport) -> Outcome:
    if known.body_digest == submission.row.body_digest:
        return StoredResult(trial_id=submission.trial_id, status="same", reason=known.status_reason)
    return ResultConflict(
        f"trial {submission.trial_id} has another result already, from job {known.job_id}; it stays as it is"
    )


def _is_late(submission: Submission, trial: TrialRow, now: float) -> bool:
    return not leases.holds(trial, now) or submission.fencing_token not in {None, trial.fencing_token}
