# SPDX-License-Identifier: Apache-2.0
"""The overview for people: studies searched and sorted, one study's contents, hardware and models side by side.

It only reads, and decides no question: the worth of a config was decided when its results came.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from sqlalchemy import Connection

from ringtune.service.errors import InvalidRequest, StudyNotFound
from ringtune.service.store import Database, job_records, job_states, reports, studies
from ringtune.service.store import overview as table
from ringtune.service.store.job_records import BaselineJobs
from ringtune.service.store.overview import FINDINGS, ORDERS, Wanted
from ringtune.service.store.rows import AgedReport, AgedRun, ListedStudyRow, Status
from ringtune.service.store.summary_rows import StandName
from ringtune.service.store.whole_tables import windows_of_jobs
from ringtune.shared_service.advice.rule import KeyAdvice
from ringtune.tuner import Config
from ringtune.tuner.priors.relevance import StudyKey

from .canonical import digest
from .gains import MeanGain, gain_of
from .jobs import State, StudyJob, states_of, these_jobs
from .key_advice import StudyAdvice, advice_of
from .study_cache import key_of
from .values import Json
from .verdicts import MAX_CONFIGS, MAX_JOBS, BestConfig, ReporterStand, recommended, verdicts_of

MAX_PAGE = 500
MAX_RESULTS = 2000
"""Maximum results of a study, the newest: more would not be read, and not be drawn."""
MAX_RUNS = 50
MAX_COMPARED = 200
STEP_DIGITS = 6
"""Decimals of a step time in ms: the tables keep its logarithm to 1e-9."""

__all__ = [
    "FINDINGS",
    "MAX_CONFIGS",
    "MAX_JOBS",
    "MAX_RESULTS",
    "MAX_RUNS",
    "ORDERS",
    "BestConfig",
    "Counted",
    "JobPart",
    "KeyAdvice",
    "LedgerResult",
    "ListedStudy",
    "MeanGain",
    "Overview",
    "PushedRun",
    "ReporterStand",
    "ShownStudy",
    "StandName",
    "StudyList",
    "Wanted",
]


@dataclass(frozen=True)
class ListedStudy:
    """A study in a list.

    Attributes:
        study_id: 32 hex digits.
        key: The key of the study.
        model_name: For people.
        hardware_name: Name that most tokens gave the hardware, in this study, else in any of its studies; or None.
        machines: CPU, cores and hosts, in words; None where no job said.
        trials: Results that count.
        jobs: Jobs with such a result.
        age_s: Since it was created.
        idle_s: Since its newest result that counts; None without any.
        states: Number of jobs in each state, of those that reported about themselves, or came to a paired test.
        advice: The rule's advice to a job with this key.
        best: The config that it gives, which paired tests adopted; None where that is the default.
        baseline_step_ms: Step time under the baseline that `best` was compared with, the geometric mean of the windows
            of each job, and over jobs; or None.
        gain: Gains of the newest verdicts of its jobs.
    """

    study_id: str
    key: StudyKey
    model_name: str | None
    hardware_name: str | None
    machines: str | None
    trials: int
    jobs: int
    age_s: float
    idle_s: float | None
    states: Mapping[State, int]
    advice: KeyAdvice
    best: BestConfig | None
    baseline_step_ms: float | None
    gain: MeanGain = field(default_factory=MeanGain)


@dataclass(frozen=True)
class StudyList:
    """A page of studies, and how many there are in all."""

    items: tuple[ListedStudy, ...]
    total: int


@dataclass(frozen=True)
class LedgerResult:
    """A result as the ledger has it; see `ReportedResult`."""

    number: int
    trial_id: str
    job_id: str
    run_id: str | None
    status: Status
    status_reason: str | None
    phase: str
    config: Config
    score_bytes_per_s: float | None
    median_step_ms: float | None
    mad_step_ms: float | None
    steps: int
    valid: bool
    void_reason: str | None
    speedup: float | None
    ci_low: float | None
    ci_high: float | None
    pairs: int | None
    age_s: float

    @property
    def counts(self) -> bool:
        """Return whether it is used, and not kept as data alone."""
        return self.status in reports.COUNTED


RESULT_COLUMNS = tuple(field.name for field in fields(LedgerResult) if field.name not in {"config", "age_s"})


@dataclass(frozen=True)
class PushedRun:
    """A whole log that was pushed: its first record, and how many results it gave."""

    run_id: str
    job_id: str
    results: int
    header: Json
    age_s: float


@dataclass(frozen=True)
class JobPart:
    """The part of a job in its study.

    Attributes:
        used: Its results that are used.
        baseline_ms: Step time under its baseline, the geometric mean of its windows; None without any.
        fastest_ms: The shortest median step time of any of its windows after the warm-up; None without any.
        phase: Phase of its newest result; None without any.
    """

    used: int = 0
    baseline_ms: float | None = None
    fastest_ms: float | None = None
    phase: str | None = None


@dataclass(frozen=True)
class ShownStudy:
    """A study with everything in it that people look at.

    Attributes:
        study: The study as in the list, with the states of silent jobs, too.
        space: `SearchSpace.to_json()`.
        step_bytes: Gradient bytes of a step; None where no job said.
        tensors: Gradients of a step; 0 where no job said.
        results: The newest, the oldest first; of one job if one was named.
        results_in_all: Number of results of all jobs.
        configs_in_all: Number of configs that were measured.
        runs_in_all: Number of logs that were pushed.
        configs: The best first, each with every reporter's word on it.
        jobs: Those that were heard of last first; a job that was named is among them, in any case.
        parts: The part of each of these jobs; without those of which no result is used.
        runs: The newest first.
        newest_event: Number of the newest event of all studies when this was read.
    """

    study: ListedStudy
    space: Json
    step_bytes: int | None
    tensors: int
    results: tuple[LedgerResult, ...]
    results_in_all: int
    configs: tuple[BestConfig, ...]
    jobs: tuple[StudyJob, ...]
    parts: Mapping[str, JobPart]
    runs: tuple[PushedRun, ...]
    newest_event: int = 0
    configs_in_all: int = 0
    runs_in_all: int = 0

    @property
    def is_cut(self) -> bool:
        """True where results are left out: there may be more than the newest `MAX_RESULTS`."""
        return len(self.results) == MAX_RESULTS

    @property
    def jobs_in_all(self) -> int:
        """Return the number of jobs, those included that are not shown."""
        return sum(self.study.states.values())


@dataclass(frozen=True)
class Counted:
    """Hardware or a model: its studies, and with how many of the other kind it was measured.

    `machines` is the hardware in words, None for a model.
    """

    fingerprint: str
    name: str | None
    machines: str | None
    studies: int
    others: int


class Overview:
    """Reads for people."""

    def __init__(self, database: Database) -> None:
        """Read from `database`."""
        self._database = database

    def studies(self, wanted: Wanted, order: str = "created", *, page: int = 1, limit: int = 50) -> StudyList:
        """Return a page of studies, from 1.

        Raises:
            InvalidRequest: If there is no such order, finding or page.
        """
        if order.removeprefix("-") not in ORDERS or not (wanted.finding is None or wanted.finding in FINDINGS):
            raise InvalidRequest(
                f"order={order[:50]!r}, finding={str(wanted.finding)[:50]!r}; allowed: {', '.join(ORDERS)}, with a "
                f"minus for the other direction, and {', '.join(FINDINGS)}"
            )
        if not 1 <= limit <= MAX_PAGE or not 1 <= page <= 1_000_000:
            raise InvalidRequest(f"page={page}, limit={limit}; allowed: pages from 1, up to {MAX_PAGE} studies each")
        with self._database.reading() as connection:
            rows = table.page(connection, wanted, order, offset=(page - 1) * limit, limit=limit)
            return StudyList(_listed(connection, rows), table.count(connection, wanted))

    def layouts(self) -> tuple[tuple[int, ...], ...]:
        """Return the ranks per host that anything was measured with, the fewest ranks first."""
        with self._database.looking() as connection:
            found = set(table.layouts(connection, MAX_PAGE))
        return tuple(sorted(found, key=lambda layout: (sum(layout), len(layout))))

    def targets(self) -> tuple[str, ...]:
        """Return the tuned targets, models and hardware of all studies."""
        with self._database.looking() as connection:
            return tuple(table.targets(connection))

    def study(self, study_id: str, job_id: str | None = None) -> ShownStudy:
        """Return a study with the results of all jobs, or of one.

        Raises:
            StudyNotFound: If there is none.
        """
        with self._database.reading() as connection:
            row = studies.get(connection, study_id)
            if row is None:
                raise StudyNotFound(f"there is no study {study_id[:64]!r}")
            sizes, verdicts = row.tensor_bytes, verdicts_of(connection, study_id)
            jobs = verdicts.jobs
            if job_id is not None and all(job.job_id != job_id for job in jobs):
                jobs += these_jobs(connection, study_id, job_states.known(connection, study_id, [job_id]))
            listed = _listed(connection, table.these(connection, [study_id]), with_silent=True)[0]
            return ShownStudy(
                study=listed,
                space=row.search_space,
                step_bytes=sum(sizes) if sizes else None,
                tensors=len(sizes),
                results=tuple(map(result_of, table.newest_results(connection, study_id, job_id, MAX_RESULTS))),
                results_in_all=table.count_results(connection, study_id),
                configs=verdicts.configs,
                jobs=jobs,
                parts=parts_of(connection, study_id, [job.job_id for job in jobs]),
                runs=tuple(map(_run, table.runs_of(connection, study_id, MAX_RUNS))),
                newest_event=reports.newest_number(connection),
                configs_in_all=table.count_configs(connection, study_id),
                runs_in_all=table.count_runs(connection, study_id),
            )

    def some(self, study_ids: Sequence[str]) -> tuple[ListedStudy, ...]:
        """Return these studies in this order; those that do not exist are left out."""
        with self._database.reading() as connection:
            found = {study.study_id: study for study in _listed(connection, table.these(connection, study_ids))}
        return tuple(found[study_id] for study_id in study_ids if study_id in found)

    def hardware(self, text: str = "", *, page: int = 1, limit: int = 50) -> tuple[Counted, ...]:
        """Return a page of hardware, that with the most models first."""
        with self._database.looking() as connection:
            rows = table.hardware(connection, text, offset=(page - 1) * limit, limit=limit)
        return tuple(Counted(**vars(row)) for row in rows)

    def models(self, text: str = "", limit: int = 50) -> tuple[Counted, ...]:
        """Return models, that on the most hardware first."""
        with self._database.looking() as connection:
            rows = table.models(connection, text, limit)
        return tuple(Counted(**vars(row)) for row in rows)

    def of_model(self, model: str) -> StudyList:
        """Return the newest studies of a model on all hardware, and how many there are."""
        return self.studies(Wanted(model=model), limit=MAX_COMPARED)


def _listed(
    connection: Connection, rows: Sequence[ListedStudyRow], *, with_silent: bool = False
) -> tuple[ListedStudy, ...]:
    ids: Collection[str] = [row.study_id for row in rows]
    baselines = job_records.by_baseline(connection, ids)
    names = table.hardware_names(connection, {row.hardware for row in rows})
    states = states_of(connection, ids, with_silent=with_silent)
    shown = []
    for row in rows:
        name, machines = names[row.hardware]
        study_id, advice = row.study_id, advice_of(connection, row.study_id)
        own = [item for item in baselines if item.study_id == study_id]
        listed = _study(row, advice, states[study_id], own)
        own_names = (row.hardware_name or name, row.machines_text or machines)
        gain = gain_of(connection, study_id)
        shown.append(replace(listed, hardware_name=own_names[0], machines=own_names[1], gain=gain))
    return tuple(shown)


def _study(
    row: ListedStudyRow,
    advice: StudyAdvice,
    states: Mapping[State, int],
    baselines: Sequence[BaselineJobs],
) -> ListedStudy:
    best = advice.best
    return ListedStudy(
        study_id=row.study_id,
        key=key_of(row),
        model_name=row.model_name,
        hardware_name=row.hardware_name,
        machines=row.machines_text,
        trials=sum(item.trials for item in baselines),
        jobs=sum(item.jobs for item in baselines),
        age_s=max(row.age_s, 0.0),
        idle_s=max(min(item.age_s for item in baselines), 0.0) if baselines else None,
        states=states,
        advice=advice.said,
        best=None if best is None else recommended(best, advice.said),
        baseline_step_ms=_mean_step_ms(baselines, None if best is None else best.baseline),
    )


def _mean_step_ms(rows: Sequence[BaselineJobs], over: str | None) -> float | None:
    """Return the geometric mean of jobs' baseline step times in ms, None without any.

    Args:
        rows: A study's jobs, by baseline.
        over: Baseline (JSON) of the best config: jobs with another one are left out.
    """
    chosen = [row for row in rows if over is None or row.baseline_digest == digest(over)]
    timed = [(row.timed_jobs, row.mean_log_step) for row in chosen if row.mean_log_step is not None]
    jobs = sum(number for number, _ in timed)
    return _step_ms(sum(number * mean for number, mean in timed) / jobs) if jobs else None


def parts_of(connection: Connection, study_id: str, job_ids: Sequence[str]) -> dict[str, JobPart]:
    """Return the results of some jobs in a study, by job."""
    windows = windows_of_jobs(connection, study_id, job_ids)
    found = dict.fromkeys(job_ids, JobPart())
    for job_id, row in windows.items():
        found[job_id] = replace(found[job_id], fastest_ms=row.fastest_ms, phase=row.phase)
    for job_id, record in job_records.aged(connection, study_id, job_ids).items():
        mean_ms = None if record.baseline_log_step is None else _step_ms(record.baseline_log_step)
        found[job_id] = replace(found[job_id], used=record.trials, baseline_ms=mean_ms)
    return found


def _step_ms(mean_log_step: float) -> float:
    """Return a step time, without the digits that the sums have lost."""
    return round(math.exp(mean_log_step), STEP_DIGITS)


def result_of(row: AgedReport) -> LedgerResult:
    """Return the result in a row."""
    values = {name: getattr(row, name) for name in RESULT_COLUMNS}
    return LedgerResult(config=Config(row.config_values), age_s=max(row.age_s, 0.0), **values)


def _run(row: AgedRun) -> PushedRun:
    return PushedRun(row.run_id, row.job_id, row.results, row.first_record, max(row.age_s, 0.0))
