# SPDX-License-Identifier: Apache-2.0
"""Advice on a study by the rule of `ringtune.shared_service.advice`, from the tables: one for API and pages."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from ringtune.service.store import key_verdicts
from ringtune.service.store.summary_rows import AgedConfig
from ringtune.shared_service.advice.rule import Decision, KeyAdvice, KeyVerdicts, advice_on
from ringtune.shared_service.advice.votes import pooled

from .evidence import E9, E12
from .reporters import is_trusted_job, reporter_of

MAX_DECISIONS = 256
"""The newest verdicts of a study that are looked at. A token that fills them hides others', and does not gain by it: an
adoption of two reporters falls to more reporters alone."""


@dataclass(frozen=True)
class StudyAdvice:
    """The rule's word on a study, and the row of the config that it gives; None where that is the default."""

    said: KeyAdvice
    best: AgedConfig | None


def advice_of(connection: Connection, study_id: str) -> StudyAdvice:
    """Return the rule's advice on a study's key; reads along indexes, however many jobs the study has."""
    adopted = key_verdicts.adopted_of(connection, study_id, 1)
    best = adopted[0] if adopted else None
    adopters = frozenset() if best is None else key_verdicts.adopters_of(connection, study_id, best.config_digest)
    said = advice_on(best, adopters, KeyVerdicts.of(_decisions(connection, study_id)))
    return StudyAdvice(said, best if said.best is not None else None)


def _decisions(connection: Connection, study_id: str) -> Iterable[Decision]:
    """Yield the newest verdict of each job: the one that it reported, else that of its newest paired test."""
    told = set()
    for said in key_verdicts.said_verdicts(connection, study_id, MAX_DECISIONS):
        told.add(said.job_id)
        yield _decision(said, is_adopted=said.state == key_verdicts.ADOPTED)
    for row in key_verdicts.tested_verdicts(connection, study_id, MAX_DECISIONS):
        if row.job_id not in told:
            told.add(row.job_id)
            mean = pooled([(row.log_speedup_e9 / E9 / row.adoptions, row.variance_e12 / E12 / row.adoptions**2)])
            yield _decision(row, is_adopted=mean.low > 0.0)


def _decision(row: key_verdicts.SaidVerdict | key_verdicts.TestedVerdict, *, is_adopted: bool) -> Decision:
    reporter = reporter_of(row.token_id, row.job_id, has_many_jobs=row.has_many_jobs)
    return Decision(reporter, row.unix_s, is_adopted, is_trusted_job(reporter))
