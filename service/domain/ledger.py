# SPDX-License-Identifier: Apache-2.0
"""Telling: results into the ledger, one by one, in batches, or as whole tuning logs."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ringtune.service.errors import Conflict, QuotaExceeded, ServiceError
from ringtune.service.store import Database
from ringtune.shared_service.rest_models import StoredResult, StoredRun
from ringtune.shared_service.rest_models.fields import MAX_TEXT
from ringtune.tuner.logs.reader import RunLog

from .policy import ServiceLimits
from .run_logs import RunLogs, collect_runs
from .said_spaces import SaidSpaces
from .spaces import ENGINE_TARGET
from .studies import Studies
from .study_cache import KnownStudy, StudyCache
from .submission import LegalConfigs, Submission, prepare
from .values import ReportedResult
from .writer import GroupWriter, Outcome


class Ledger:
    """The way of results to the writer."""

    def __init__(
        self, database: Database, cache: StudyCache, studies: Studies, writer: GroupWriter, policy: ServiceLimits
    ) -> None:
        """Check with the facts of `cache`, and store through `writer`."""
        self._cache = cache
        self._writer = writer
        self._policy = policy
        self._spaces = SaidSpaces(database, policy)
        self._logs = RunLogs(database, studies, self.tell_batch, policy)

    async def tell(self, study_id: str, trial_id: str, result: ReportedResult) -> StoredResult:
        """Store the result of a trial, which may be new; the same again changes no row.

        No thread waits for the commit: all that wait for the same one would wake at once, which costs more than the
        results do.

        Returns:
            When the result is durable.

        Raises:
            StudyNotFound: If there is no such study.
            ResultConflict: If the trial has another result.
            TrialConflict: If another job asked for the trial.
            JobConflict: If the job belongs to another token.
            QuotaExceeded: If the token may store no more now.
            ImplausibleResult: If the numbers cannot be true.
            OutsideSearchSpace: If the config is not legal.
            Unavailable: If it could not be stored now.
        """
        study = self._cache.known(study_id)
        if study is None:
            study = await asyncio.to_thread(self._cache.get, study_id)
        configs = LegalConfigs.of_engine()
        if study.key.target != ENGINE_TARGET:
            configs = await asyncio.to_thread(self._spaces.legal, study, result.token_id)
        submission = prepare(study, trial_id, result, max_speedup=self._policy.max_speedup, configs=configs)
        (outcome,) = await self._writer.store_async([submission])
        if isinstance(outcome, ServiceError):
            raise outcome
        return outcome

    def tell_batch(self, study_id: str, results: Sequence[tuple[str, ReportedResult]]) -> tuple[StoredResult, ...]:
        """Store results of several trials of one study; one that cannot be stored does not concern the others.

        Returns:
            The outcome of each, when all stored ones are durable.

        Raises:
            StudyNotFound: If there is no such study.
            QuotaExceeded: If a token may store no more now; some may be stored, and all may be sent again.
            Unavailable: If they could not be stored now; some may be.
        """
        study = self._cache.get(study_id)
        tokens = {result.token_id for _, result in results}
        configs = {token_id: self._spaces.legal(study, token_id) for token_id in tokens}
        prepared = [self._tried(study, configs[result.token_id], trial_id, result) for trial_id, result in results]
        submissions = [item for item in prepared if isinstance(item, Submission)]
        outcomes = iter(self._outcomes(submissions))
        return tuple(
            _stored(trial_id, next(outcomes) if isinstance(item, Submission) else item)
            for (trial_id, _), item in zip(results, prepared, strict=True)
        )

    def take_run(
        self, records: Iterable[Mapping[str, Any]], job_id: str | None = None, token_id: str | None = None
    ) -> tuple[StoredRun, ...]:
        """Store the runs of a tuning log, whose records are its lines as objects, schema 1; see `take_runs`."""
        return self.take_runs(collect_runs(records), job_id, token_id)

    def take_runs(
        self, runs: Sequence[RunLog], job_id: str | None = None, token_id: str | None = None
    ) -> tuple[StoredRun, ...]:
        """Store the runs of a tuning log; the same log again changes no row.

        Args:
            runs: Runs from `collect_runs`.
            job_id: Job of the runs; None: each run counts as a job.
            token_id: The token that they came with; None where the service is open.

        Raises:
            InvalidRequest: If no run begins in it.
            RunConflict: If a run has another log.
            JobConflict: If a job belongs to another token.
            QuotaExceeded: If the token may store no more now; the same log again goes on where this one ended.
            OutsideSearchSpace: If a run's search space is not legal.
        """
        return self._logs.take(runs, job_id, token_id)

    def _outcomes(self, submissions: Sequence[Submission]) -> Sequence[Outcome]:
        """Store submissions; raises QuotaExceeded if that is an outcome, for then all of them may be sent again."""
        outcomes = self._writer.store(submissions) if submissions else []
        if (over := next((outcome for outcome in outcomes if isinstance(outcome, QuotaExceeded)), None)) is not None:
            raise over
        return outcomes

    def _tried(
        self, study: KnownStudy, configs: LegalConfigs, trial_id: str, result: ReportedResult
    ) -> Submission | ServiceError:
        try:
            return prepare(study, trial_id, result, max_speedup=self._policy.max_speedup, configs=configs)
        except ServiceError as error:
            return error


def _stored(trial_id: str, outcome: Outcome) -> StoredResult:
    if isinstance(outcome, StoredResult):
        return outcome
    return StoredResult(
        trial_id=trial_id,
        status="conflict" if isinstance(outcome, Conflict) else "refused",
        reason=outcome.detail[:MAX_TEXT],
        code=outcome.code,
    )
