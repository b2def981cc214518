# SPDX-License-Identifier: Apache-2.0
"""Export and import: everything that was learned as JSON lines, which any database of this service takes back.

The first line names the format; then each study is followed by its results, in the order in which they were stored, and
its runs; the last line seals them. Leases, tokens and the audit stay where they are. Derived rows are derived anew.
"""

import json
import math
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from sqlalchemy import Connection

from ringtune.service.errors import InvalidRequest, ResultConflict, ServiceError
from ringtune.service.store import Database, audit, job_facts, jobs, reports, studies, tokens
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.rows import NewReport, RunRow
from ringtune.service.store.tables import reports as reports_table
from ringtune.shared_service.rest_models import Imported
from ringtune.tuner import Config, Phase, SearchSpace, StepTimes, VoidReason
from ringtune.tuner.logs.records import OLD_CI_LEVEL, RunRecord, record_from_json
from ringtune.tuner.priors.relevance import StudyKey

from .archive_seal import LineSeal, check_whole, rereadable
from .archived_jobs import machine_columns, take_job
from .canonical import canonical, digest
from .job_owners import conflict_of
from .policy import ServiceLimits
from .reporters import UNRECORDED
from .said_names import NAMED, say_names
from .spaces import study_space
from .studies import check_key, checked_name, checked_sizes, digest_of, study_row
from .study_cache import KnownStudy, StudyCache, known_study
from .submission import LegalConfigs, as_reported, check_id, prepare
from .summary_updates import Changes
from .values import PairedTestResult, ReportedResult

UNSEALED_SCHEMA = 1
"""Schema of exports that had no last line: they are taken as they are, and one that was cut off is not noticed."""
UNNAMED_SCHEMA = 2
"""Schema of exports whose rows did not name the token that they came with."""
UNDIGESTED_SCHEMA = 3
"""Schema of exports whose rows had a digest of the report alone."""
SCHEMA = 4
SCHEMAS = (UNSEALED_SCHEMA, UNNAMED_SCHEMA, UNDIGESTED_SCHEMA, SCHEMA)
ROW_DIGEST = "row_digest"
DIGESTED = ("study_id", "trial_id", "body_digest", "status", "status_reason", "received_unix_s", "token_id")
"""Columns in a row's digest: the report has one of its own."""
TRIAL_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9_.:-]{1,64}")
"""A UUID, as the service's clients make them, or a text like an id: it needs quotes nowhere."""
TOKEN_ID = re.compile(r"[0-9a-f]{16,32}|setting:(admin|read)|unrecorded")
CHUNK = 500
"""Lines per transaction: others write meanwhile."""
STUDY_ID = re.compile(r"[0-9a-f]{32}")
STATUSES = ("new", "late", "quarantined")
MAX_REASON = 2000
MAX_COUNT = 10**9


@dataclass
class _Counts:
    studies: int = 0
    results: int = 0
    same: int = 0


class Archive:
    """Everything, out and in."""

    def __init__(self, database: Database, cache: StudyCache, box: SearchSpace, policy: ServiceLimits) -> None:
        """Read and write `database`."""
        self._database = database
        self._cache = cache
        self._box = box
        self._policy = policy

    def export(self) -> Generator[str, None, None]:
        """Yield lines without their ends, as of one moment, a few rows in memory at a time."""
        seal = LineSeal()
        with self._database.reading() as connection:
            yield from map(seal.add, _lines(connection))
        yield seal.line

    def take(self, lines: Iterable[str]) -> Imported:
        """Store an export beside the present rows; rows that are there already are left as they are.

        Args:
            lines: All of an export's, with their newlines or without.

        Raises:
            InvalidRequest: If the export is not whole: then no line is stored; or if a line is none of an export:
                the lines before it may be stored.
            ResultConflict: If a trial has another result here; the lines before it may be stored.
        """
        with rereadable(lines) as read:
            schema = _schema(next(read(), ""))
            if schema != UNSEALED_SCHEMA:
                check_whole(read())
            return Imported(**vars(self._take_all(read(), schema)))

    def _take_all(self, lines: Iterable[str], schema: int) -> _Counts:
        numbered = islice(enumerate(lines, start=1), 1, None)
        counts, ids = _Counts(), dict[str, str]()
        while chunk := list(islice(numbered, CHUNK)):
            with self._database.writing(reports.LOCK) as connection:
                _Chunk(connection, self._box, self._policy, ids, counts, schema=schema).take(chunk)
        with self._database.writing() as connection:
            audit.record(connection, "archive_taken", "ledger", vars(counts))
        for study_id in ids.values():
            self._cache.forget(study_id)
        return counts


class _Chunk:
    """The lines of one transaction."""

    def __init__(
        self,
        connection: Connection,
        box: SearchSpace,
        policy: ServiceLimits,
        ids: dict[str, str],
        counts: _Counts,
        *,
        schema: int,
    ) -> None:
        """Begin; `ids` maps the archive's study ids to those here, `counts` adds up, `schema` is the archive's."""
        self._schema = schema
        self._connection = connection
        self._box = box
        self._policy = policy
        self._ids = ids
        self._counts = counts
        self._now = now_unix_s(connection)
        self._unnamed = UNRECORDED if tokens.everyone(connection) else None
        self._known: dict[str, KnownStudy] = {}
        self._results: dict[str, list[NewReport]] = {}

    def take(self, chunk: list[tuple[int, str]]) -> None:
        takers: dict[str, Callable[[dict[str, Any]], None]] = {
            "study": self._take_study,
            "result": self._take_result,
            "run": self._take_run,
            "job": self._take_job,
            "end": _pass,
        }
        for number, line in chunk:
            data = _object(number, line)
            taker = takers.get(str(data.pop("type", None)))
            if taker is None:
                raise InvalidRequest(f"line {number} is neither a study nor a result nor a run")
            try:
                taker(data)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise InvalidRequest(f"line {number} is not as an export writes it: {error!r:.200}") from error
            except ServiceError as error:
                raise type(error)(f"line {number}: {error.detail}") from error
        for study_id, rows in self._results.items():
            self._store(study_id, rows)

    def _take_study(self, data: dict[str, Any]) -> None:
        layout = tuple(json.loads(data["layout"]))
        key = StudyKey(data["hardware"], data["model"], layout, data["target"], data["surface_version"])
        check_key(key)
        if not STUDY_ID.fullmatch(data["study_id"]):
            raise InvalidRequest(f"study_id={data['study_id'][:100]!r} is no id of a study: 32 digits of 0-9a-f")
        found = studies.find(self._connection, digest_of(key))
        if found is not None:
            self._ids[data["study_id"]] = found.study_id
            self._counts.same += 1
            return
        if studies.get(self._connection, data["study_id"]) is not None:
            raise InvalidRequest(f"study_id={data['study_id']} is that of a study with another key")
        space = study_space(key.target, json.loads(data["space"]), self._box)
        row = study_row(
            key,
            data["study_id"],
            canonical(space.to_json()),
            model_name=checked_name("model_name", data["model_name"]),
            hardware_name=checked_name("hardware_name", data["hardware_name"]),
            gradient_bytes=canonical(checked_sizes([int(size) for size in json.loads(data["gradient_bytes"])])),
            created_unix_s=self._past(data["created_unix_s"]),
            **machine_columns(data),
        )
        studies.add(self._connection, row)
        names = {name: getattr(row, name) for name in (*NAMED, "machines_text")}
        say_names(self._connection, row.study_id, UNRECORDED, names)
        self._ids[row.study_id] = row.study_id
        self._counts.studies += 1

    def _take_result(self, data: dict[str, Any]) -> None:
        study_id = self._ids[data["study_id"]]
        study = studies.get(self._connection, study_id)
        if study is None:
            raise InvalidRequest(f"study {study_id} was deleted meanwhile")
        known = self._known.setdefault(study_id, known_study(study))
        row_digest = data.pop(ROW_DIGEST, None)
        if TRIAL_ID.fullmatch(data["trial_id"]) is None:
            raise InvalidRequest(f"trial_id={data['trial_id'][:100]!r} is no id of a trial")
        configs = LegalConfigs.of_archive(known.key.target)
        result = _result(data)
        prepared = prepare(known, data["trial_id"], result, max_speedup=self._policy.max_speedup, configs=configs)
        if as_reported(result, data["config"]) != data["body_digest"] or data["status"] not in STATUSES:
            raise InvalidRequest("the result was changed after it was exported: its digest differs")
        row = replace(
            prepared.row,
            status=data["status"],
            status_reason=_checked_reason(data["status_reason"]),
            token_id=self._token(data),
            received_unix_s=self._past(data["received_unix_s"]),
        )
        if self._schema > UNDIGESTED_SCHEMA and row_digest != _row_digest(data):
            raise InvalidRequest(
                "the result's status, time or token was changed after it was exported: its digest differs"
            )
        self._results.setdefault(study_id, []).append(row)

    def _take_run(self, data: dict[str, Any]) -> None:
        if reports.run(self._connection, data["run_id"]) is not None:
            return
        for name in ("run_id", "job_id"):
            check_id(name, data[name])
        if not isinstance(record_from_json(json.loads(data["header"])), RunRecord):
            raise InvalidRequest("the header is no record of type 'run'")
        if type(data["results"]) is not int or not 0 <= data["results"] <= MAX_COUNT:
            raise InvalidRequest(f"results={str(data['results'])[:40]} is no number of results: 0 to {MAX_COUNT}")
        row = RunRow(
            run_id=data["run_id"],
            study_id=self._ids[data["study_id"]],
            job_id=data["job_id"],
            token_id=self._token(data),
            body_digest=digest(data["header"]),
            header=data["header"],
            results=data["results"],
            received_unix_s=self._past(data["received_unix_s"]),
        )
        self._claim({row.job_id: row.token_id})
        reports.add_run(self._connection, row)

    def _take_job(self, data: dict[str, Any]) -> None:
        take_job(self._connection, self._ids[data["study_id"]], data, self._past)

    def _token(self, data: Mapping[str, Any]) -> str | None:
        """Return the id of the token that a row came with; archives from before it was kept do not name one."""
        token_id = data.get("token_id", self._unnamed)
        if token_id is None or (isinstance(token_id, str) and TOKEN_ID.fullmatch(token_id)):
            return token_id
        raise InvalidRequest(f"token_id={str(token_id)[:100]!r} is no id of a token: 16 to 32 digits of 0-9a-f")

    def _claim(self, tokens_of: Mapping[str, str | None]) -> None:
        """Give jobs to the tokens of their rows; raises JobConflict where a job here belongs to another."""
        owners = jobs.claim(
            self._connection, {job: token for job, token in tokens_of.items() if token != UNRECORDED}, self._now
        )
        for job_id, token_id in tokens_of.items():
            if token_id != UNRECORDED and (conflict := conflict_of(job_id, token_id, owners)) is not None:
                raise conflict

    def _past(self, unix_s: float) -> float:
        """Return a time, now if it is later; raises InvalidRequest for a value that is no time."""
        if isinstance(unix_s, bool) or not isinstance(unix_s, int | float) or not 0.0 <= unix_s < math.inf:
            raise InvalidRequest(f"{unix_s!r:.100} is no time: seconds since 1970, a number")
        return min(float(unix_s), self._now)

    def _store(self, study_id: str, rows: list[NewReport]) -> None:
        known = reports.stored(self._connection, [(study_id, row.trial_id) for row in rows])
        self._claim({row.job_id: row.token_id for row in rows})
        changes = Changes.load(self._connection, rows)
        new = []
        for row in rows:
            stored = known.get((study_id, row.trial_id))
            if stored is None:
                known[study_id, row.trial_id] = row
                changes.add(row)
                new.append(row)
            elif stored.body_digest != row.body_digest:
                raise ResultConflict(f"trial {row.trial_id} has another result here; nothing of it was changed")
        reports.add(self._connection, new)
        changes.save(self._connection, self._policy.max_speedup)
        self._counts.results += len(new)
        self._counts.same += len(rows) - len(new)


def _checked_reason(reason: object) -> str | None:
    """Return why a result is kept apart, None for one that is not; raises InvalidRequest if it cannot be shown."""
    if reason is None or (isinstance(reason, str) and len(reason) <= MAX_REASON and reason.isprintable()):
        return reason
    raise InvalidRequest(f"the status's reason is no text of up to {MAX_REASON} printable characters")


def _lines(connection: Connection) -> Iterator[str]:
    """Yield an export's lines but for the last."""
    yield canonical({"type": "archive", "schema": SCHEMA})
    for study_id in studies.all_ids(connection):
        study = studies.get(connection, study_id)
        if study is not None:
            yield _line("study", vars(study))
        for row in reports.of_study(connection, study_id):
            columns = vars(row)
            yield _line("result", {**columns, ROW_DIGEST: _row_digest(columns)}, without=("number",))
        for run in reports.all_runs(connection, study_id):
            yield _line("run", vars(run))
        for job in job_facts.all_of_study(connection, study_id):
            yield _line("job", vars(job))


def _row_digest(row: Mapping[str, Any]) -> str:
    """Return the digest of the service's additions to a result; without a key, it tells mistakes, not forgers."""
    return digest(canonical([row.get(name) for name in DIGESTED]))


def _schema(first: str) -> int:
    """Return the schema that an archive's first line names; raises InvalidRequest if it is none that is known."""
    header = _object(1, first)
    if header.get("type") != "archive" or header.get("schema") not in SCHEMAS:
        raise InvalidRequest(
            f"the first line is not that of an archive of schema {', '.join(map(str, SCHEMAS))}; give what an export "
            "wrote"
        )
    return int(header["schema"])


def _pass(_data: dict[str, Any]) -> None:
    """Skip the last line, which was looked at first."""


def _line(kind: str, row: Mapping[str, Any], without: tuple[str, ...] = ()) -> str:
    return canonical({"type": kind, **{name: value for name, value in row.items() if name not in without}})


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"line {number} is not JSON") from error
    if not isinstance(data, dict):
        raise InvalidRequest(f"line {number} is not a JSON object")
    return data


def _result(data: Mapping[str, Any]) -> ReportedResult:
    """Return the result in a ledger row; the columns are those of `tables.reports`."""
    unknown = set(data) - {column.name for column in reports_table.c}
    if unknown:
        raise InvalidRequest(f"a result has no {', '.join(sorted(unknown))}")
    times = [data[name] for name in ("median_step_ms", "mad_step_ms", "mean_step_ms")]
    tested = [*(data[name] for name in ("speedup", "ci_low", "ci_high", "pairs")), data.get("ci_level") or OLD_CI_LEVEL]
    return ReportedResult(
        config=Config(json.loads(data["config"])),
        job_id=data["job_id"],
        score_bytes_per_s=data["score_bytes_per_s"],
        step_ms=None if times[0] is None else StepTimes(*times),
        steps=data["steps"],
        valid=data["valid"],
        reason=None if data["void_reason"] is None else VoidReason(data["void_reason"]),
        adoption=None if tested[0] is None else PairedTestResult(*tested),
        phase=Phase(data["phase"]),
        run_id=data["run_id"],
    )
