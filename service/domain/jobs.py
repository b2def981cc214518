# SPDX-License-Identifier: Apache-2.0
"""Jobs: their reports of themselves, and the state that follows from these and from the time of the last one.

A job says that it runs, its decision, or that it ended before a decision. One that said none of the latter and has
been silent for much longer than between its reports so far is lost: it crashed, was killed, or does not reach the
service.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeAlias, cast, get_args

from sqlalchemy import Connection

from ringtune.service.errors import InvalidRequest, StudyNotFound
from ringtune.service.store import Database, job_records, studies
from ringtune.service.store import job_facts as table
from ringtune.service.store import job_states as states
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.job_records import AgedJobRecord
from ringtune.service.store.rows import AgedJobFacts, JobFactsRow, ReportRow, SaidState
from ringtune.tuner import Config
from ringtune.tuner.logs.records import OLD_CI_LEVEL

from .budgets import row_cost, spend
from .canonical import canonical
from .cursors import cursor_of, place_in
from .job_owners import claim
from .machines import MAX_KINDS, MachineKind, described
from .policy import ServiceLimits
from .said_names import say_names
from .studies import checked_name
from .submission import check_id
from .values import Page, PairedTestResult

State: TypeAlias = Literal["running", "adopted", "keeping_default", "ended_early", "lost"]

MAX_TAGS = 20
MAX_VERDICT = 500
MAX_COMMIT = 100
MIN_SILENCE_S = 180.0
"""The shortest silence after which a job counts as lost; jobs on the engine report every few seconds."""
FIRST_RESULT_S = 900.0
"""A job may be silent for so long before its first result: it warms up."""
SILENT_GAPS = 5
"""A silence of so many times the longest gap between a job's results is none of its habits."""
RANKS: Mapping[str, int] = MappingProxyType({"running": 0, "ended_early": 1, "keeping_default": 2, "adopted": 2})
"""A state gives way to one of the same rank or a higher one: a late delivery revokes no decision."""


@dataclass(frozen=True)
class JobReport:
    """Facts that a job tells of itself.

    Attributes:
        state: Its progress or decision.
        verdict: The decision in words, or None.
        name: For people, or None.
        tags: For people.
        commit: Commit of the job's code, or None.
        hardware_name: Name of its machines, or None.
        machines: The facts behind its hardware's fingerprint; hosts that are alike are one.
    """

    state: SaidState = "running"
    verdict: str | None = None
    name: str | None = None
    tags: tuple[str, ...] = ()
    commit: str | None = None
    hardware_name: str | None = None
    machines: tuple[MachineKind, ...] = ()

    def check(self) -> None:
        """Raise InvalidRequest for facts that cannot be, or cannot be shown."""
        if self.state not in get_args(SaidState):
            raise InvalidRequest(f"state={str(self.state)[:40]!r}; allowed: {', '.join(get_args(SaidState))}")
        names = (("name", self.name), ("hardware_name", self.hardware_name), *(("tag", tag) for tag in self.tags))
        for what, name in names:
            checked_name(what, name)
        if len(self.tags) > MAX_TAGS or len(self.machines) > MAX_KINDS:
            raise InvalidRequest(f"a job has up to {MAX_TAGS} tags, and machines of up to {MAX_KINDS} kinds")
        _check_text("verdict", self.verdict, MAX_VERDICT)
        _check_text("commit", self.commit, MAX_COMMIT)
        for machine in self.machines:
            machine.check()


@dataclass(frozen=True)
class StudyJob:
    """A job's part in a study.

    Attributes:
        job_id: The job.
        state: Its state, as far as is known.
        verdict: Its decision in words, or None.
        name: For people, or None.
        tags: For people.
        commit: Commit of its code, or None.
        results: Number of its results, those that do not count included.
        age_s: Since it was heard of first.
        idle_s: Since it was heard of last.
        silence_limit_s: After so long a silence it counts as lost, unless it said that it ended.
        test: Its paired test, or None.
        tested: The config that was tested, or None.
    """

    job_id: str
    state: State
    verdict: str | None
    name: str | None
    tags: tuple[str, ...]
    commit: str | None
    results: int
    age_s: float
    idle_s: float
    silence_limit_s: float
    test: PairedTestResult | None
    tested: Config | None


class Jobs:
    """The jobs of the service and their states."""

    def __init__(self, database: Database, limits: ServiceLimits) -> None:
        """Keep it in `database`."""
        self._database = database
        self._limits = limits

    def put(self, study_id: str, job_id: str, facts: JobReport, token_id: str | None = None) -> JobReport:
        """Keep a job's report of itself, and return the stored facts; the same again changes none.

        Args:
            study_id: The study.
            job_id: The job.
            facts: Its report.
            token_id: The token that it comes with; None where the service is open.

        Raises:
            JobConflict: If the job belongs to another token.
            QuotaExceeded: If the token may store no more now.
            InvalidRequest: If an id or a fact cannot be.
            StudyNotFound: If there is no such study.
        """
        check_id("job_id", job_id)
        facts.check()
        with self._database.writing() as connection:
            if not studies.existing(connection, {study_id}):
                raise StudyNotFound(f"there is no study {study_id[:64]!r}; create it with its key first")
            claim(connection, job_id, token_id, self._limits)
            known = table.get(connection, study_id, job_id)
            kept = facts if known is None else _later(known, facts)
            row = _row(study_id, job_id, kept, known, now_unix_s(connection))
            if known is None:
                spend(connection, token_id, self._limits, row_cost(row.verdict, row.name, row.tags, row.code_commit))
            table.put(connection, row)
            say_names(connection, study_id, token_id, _names(facts))
        return kept

    def of_study(self, study_id: str, limit: int, cursor: str | None = None) -> Page[StudyJob]:
        """Return a page of a study's jobs, those that were heard of last first; none if there is no such study.

        Raises:
            InvalidRequest: If the cursor is not one that an earlier page gave.
        """
        with self._database.reading() as connection:
            places = states.newest(connection, study_id, limit + 1, place_in(cursor))
            jobs = these_jobs(connection, study_id, [job_id for _, job_id in places[:limit]])
        is_last = len(places) <= limit
        return Page(jobs, None if is_last else cursor_of(*places[limit - 1]))


def jobs_of(connection: Connection, study_id: str, limit: int) -> tuple[StudyJob, ...]:
    """Return the jobs of a study, those that were heard of last first."""
    return these_jobs(connection, study_id, [job_id for _, job_id in states.newest(connection, study_id, limit)])


def these_jobs(connection: Connection, study_id: str, job_ids: Sequence[str]) -> tuple[StudyJob, ...]:
    """Return some jobs of a study, in their order."""
    said = {row.job_id: row for row in table.of_jobs(connection, study_id, job_ids)}
    reported = job_records.aged(connection, study_id, job_ids)
    tests = {row.job_id: row for row in table.tests(connection, study_id, job_ids)}
    return tuple(_job(job_id, said.get(job_id), reported.get(job_id), tests.get(job_id)) for job_id in job_ids)


def states_of(
    connection: Connection, study_ids: Collection[str], *, with_silent: bool = False
) -> Mapping[str, Mapping[State, int]]:
    """Return how many jobs are in which state, by study: of those that said anything, or had a paired test.

    Args:
        connection: Connection to the database.
        study_ids: The studies.
        with_silent: Whether the others count, too; a list of studies does without them, so that it stays quick.
    """
    found: dict[str, Counter[State]] = {study_id: Counter() for study_id in study_ids}
    rules = states.Silence(FIRST_RESULT_S, MIN_SILENCE_S, SILENT_GAPS)
    for study_id, state, number in states.counts(connection, study_ids, rules, with_silent=with_silent):
        found[study_id][cast("State", state)] += number
    return found


def state_of(said: SaidState | None, test: PairedTestResult | None, idle_s: float, silence_limit_s: float) -> State:
    """Return the outcome of a job.

    Args:
        said: Its last report about itself; None without one.
        test: Its paired test, or None.
        idle_s: Since it was heard of last.
        silence_limit_s: Seconds of silence after which it counts as lost.
    """
    if said is not None and said != "running":
        return said
    if test is not None:
        return "adopted" if test.ci_low > 0.0 else "keeping_default"
    return "running" if idle_s <= silence_limit_s else "lost"


def silence_limit_s(results: int, longest_gap_s: float) -> float:
    """Return after how long a silence a job counts as lost, from how it reported so far."""
    return FIRST_RESULT_S if results == 0 else max(MIN_SILENCE_S, SILENT_GAPS * longest_gap_s)


def _job(job_id: str, said: AgedJobFacts | None, reported: AgedJobRecord | None, tested: ReportRow | None) -> StudyJob:
    idle_s, limit_s = _silence(said, reported)
    test = _test(tested)
    return StudyJob(
        job_id=job_id,
        state=state_of(None if said is None else said.state, test, idle_s, limit_s),
        verdict=None if said is None else said.verdict,
        name=None if said is None else said.name,
        tags=() if said is None else said.tag_names,
        commit=None if said is None else said.code_commit,
        results=0 if reported is None else reported.results,
        age_s=max([0.0, *(row.age_s for row in (said, reported) if row is not None)]),
        idle_s=idle_s,
        silence_limit_s=limit_s,
        test=test,
        tested=None if tested is None else Config(tested.config_values),
    )


def _check_text(what: str, text: str | None, most: int) -> None:
    if text is not None and not (1 <= len(text) <= most and text.isprintable()):
        raise InvalidRequest(f"{what}={text[:100]!r} is not 1 to {most} printable characters")


def _silence(said: AgedJobFacts | None, reported: AgedJobRecord | None) -> tuple[float, float]:
    """Return for how long a job has been silent, and how long a silence is normal."""
    idle_s = min((row.idle_s for row in (said, reported) if row is not None), default=0.0)
    if reported is None:
        return max(idle_s, 0.0), FIRST_RESULT_S
    return max(idle_s, 0.0), silence_limit_s(reported.results, reported.longest_gap_s)


def _test(row: ReportRow | None) -> PairedTestResult | None:
    if row is None or row.speedup is None or row.ci_low is None or row.ci_high is None or row.pairs is None:
        return None
    return PairedTestResult(row.speedup, row.ci_low, row.ci_high, row.pairs, row.ci_level or OLD_CI_LEVEL)


def _later(known: AgedJobFacts, facts: JobReport) -> JobReport:
    """Return new facts, with the decision that a job had come to before if they know less."""
    if RANKS[facts.state] >= RANKS[known.state]:
        return facts
    return replace(facts, state=known.state, verdict=known.verdict)


def _row(study_id: str, job_id: str, facts: JobReport, known: AgedJobFacts | None, now: float) -> JobFactsRow:
    is_news = known is None or facts.state == "running" or facts.state != known.state
    return JobFactsRow(
        study_id=study_id,
        job_id=job_id,
        state=facts.state,
        verdict=facts.verdict,
        name=facts.name,
        tags=canonical(list(facts.tags)),
        code_commit=facts.commit,
        begun_unix_s=now if known is None else known.begun_unix_s,
        heard_unix_s=now if is_news or known is None else known.heard_unix_s,
    )


def _names(facts: JobReport) -> dict[str, str | None]:
    """Return a job's report of its machines, as a study has it."""
    return {
        "hardware_name": facts.hardware_name,
        "machines": canonical([asdict(machine) for machine in facts.machines]) if facts.machines else None,
        "machines_text": described(facts.machines) or None,
    }


def machines_in(text: str | None) -> Sequence[MachineKind]:
    """Return the machines in a study's column."""
    return [MachineKind(**{**item, "gpus": tuple(item["gpus"])}) for item in json.loads(text or "[]")]
