# SPDX-License-Identifier: Apache-2.0
"""Export and import, deletion and retention, tokens: operators' work, on both databases."""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.canonical import canonical
from ringtune.service.domain.tokens import Tokens
from ringtune.service.domain.values import PairedTestResult, StudyFilter
from ringtune.service.errors import InvalidRequest, OutsideSearchSpace, ResultConflict, StudyNotFound, TokenNotFound
from ringtune.service.store import Database, audit, reports, studies, summaries
from ringtune.service.store.tables import tokens as tokens_table
from ringtune.shared_service.rest_models import Imported
from ringtune.tuner import StepTimes, VoidReason
from ringtune.tuner.logs.records import record_to_json
from tests.integration.service_link.jobs import run_record
from tests.integration.service_store.archives import sealed
from tests.unit.service.domain.reported import (
    BETTER,
    DEFAULT,
    FACTS,
    KEY,
    OTHER,
    QUERY,
    measure,
    new_id,
    result,
    study_of,
    tell,
)


@pytest.fixture
def other(kind: str, template: Callable[[str], str]) -> Iterator[Service]:
    """A service over an empty database of the other kind."""
    database = Database.open(template({"sqlite": "postgresql", "postgresql": "sqlite"}[kind]))
    made = Service(database, policy=ServiceLimits(design_workers=0))
    made.start()
    yield made
    made.close()


def fill(service: Service) -> None:
    """Store everything that there can be: two studies, late, void, quarantined and paired results, words of a job."""
    first, second = study_of(service), study_of(service, replace(KEY, layout=(2, 2)), name="räsnet \u2192 50")
    for job_id in ("job-1", "job-2"):
        measure(service, first, job_id, BETTER, 80.0 + 1 / 3)
    leased = service.suggestions.ask(second.study_id, new_id(), "job-3", 60.0)
    odd = [
        (leased.trial_id, result("job-3", leased.config, fencing_token=9)),
        (new_id(), result("job-3", OTHER, adoption=PairedTestResult(0.1, 0.05, 0.15, 6))),
        (new_id(), result("job-3", OTHER, adoption=PairedTestResult(100.0, 50.0, 150.0, 6))),
        (
            new_id(),
            replace(result("job-3"), valid=False, reason=VoidReason.PAUSE, score_bytes_per_s=None, step_ms=None),
        ),
    ]
    statuses = [item.status for item in service.ledger.tell_batch(second.study_id, odd)]
    assert ["late", "new", "quarantined", "new"] == statuses
    service.jobs.put(second.study_id, "job-3", FACTS)


def test_an_export_is_restored_into_the_other_kind_of_database(
    service: Service, database: Database, other: Service
) -> None:
    """The other database exports the same lines and answers the same; taking it twice adds no row."""
    fill(service)
    exported = list(service.archive.export())

    taken = other.archive.take(exported)
    again = other.archive.take(iter(exported))

    assert Imported(studies=2, results=16, same=0) == taken
    assert Imported(studies=0, results=0, same=18) == again
    assert exported == list(other.archive.export())
    assert all(json.loads(line) for line in exported)
    ours, theirs = service.recommendations.find(QUERY), other.recommendations.find(QUERY)
    ageless = {"evidence": {"age_s"}}
    assert ours.model_dump(exclude=ageless) == theirs.model_dump(exclude=ageless)


def test_derived_rows_are_restored_too(service: Service, database: Database, empty: str) -> None:
    """The summaries of an import are those of the ledger that was exported."""
    fill(service)
    restored = Database.open(empty)
    copy = Service(restored, policy=ServiceLimits(design_workers=0))
    copy.migrate()

    copy.archive.take(service.archive.export())

    with database.reading() as connection, restored.reading() as copied:
        for study_id in studies.all_ids(connection):
            assert summaries.everything(connection, study_id) == summaries.everything(copied, study_id)
    restored.close()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: lines[1:], "first line"),
        (lambda lines: [*lines[:2], "{", *lines[2:]], "line 3 is not JSON"),
        (lambda lines: [*lines[:2], '{"type": "secret"}'], "line 3 is neither"),
        (lambda lines: [*lines[:2], lines[2].replace('"steps":20', '"steps":21')], "line 3.*digest"),
        (lambda lines: [*lines[:2], lines[2].replace('"mad_step_ms"', '"mode_step_ms"')], "line 3"),
        (lambda lines: [lines[0], lines[1].replace('"low\\":0.05', '"low\\":0.01')], "line 2.*cycle_ms"),
        (lambda lines: [lines[0], lines[2]], "line 2"),
        (lambda lines: [lines[0], lines[1].replace(KEY.hardware, "my cluster")], "line 2.*hardware"),
        (lambda lines: [lines[0], lines[1].replace('"study_id":"', '"study_id":"../')], "line 2.*study_id"),
        (lambda lines: [lines[0], re.sub('(created_unix_s":)[^,]+', r"\1NaN", lines[1])], "line 2.*time"),
        (lambda lines: [lines[0], re.sub('(created_unix_s":)[^,]+', r"\1-1e999", lines[1])], "line 2.*time"),
        (lambda lines: [lines[0], lines[1].replace('"[2]"', '"[2.0]"')], "line 2.*layout"),
        (lambda lines: [lines[0], lines[1].replace('"[2]"', '"[true]"')], "line 2.*layout"),
        (lambda lines: [lines[0], lines[1].replace('surface_version":1', 'surface_version":true')], "line 2.*surface"),
        (lambda lines: [*lines[:2], lines[2].replace('status_reason":null', 'status_reason":{}')], "line 3.*reason"),
        (lambda lines: [*lines[:2], lines[2].replace('status_reason":null', 'status_reason":7')], "line 3.*reason"),
        (
            lambda lines: [*lines[:2], lines[2].replace('status_reason":null', 'status_reason":"\\ud800"')],
            "line 3.*reason",
        ),
        (
            lambda lines: [*lines[:2], lines[2].replace('status_reason":null', f'status_reason":"{"x" * 2001}"')],
            "line 3.*reason",
        ),
        (lambda lines: [*lines[:2], re.sub('(trial_id":")[^"]+', r"\1'; drop", lines[2])], "line 3.*no id of a trial"),
        (lambda lines: [*lines[:2], re.sub('(received_unix_s":)[^,]+', r'\1"1"', lines[2])], "line 3.*no time"),
        (lambda lines: [*lines[:2], re.sub('(received_unix_s":)[^,]+', r"\1true", lines[2])], "line 3.*no time"),
        (lambda lines: [*lines[:2], re.sub('(received_unix_s":)[^,]+', r"\1NaN", lines[2])], "line 3.*no time"),
        (lambda lines: [*lines[:2], re.sub('(received_unix_s":)[^,]+', r"\g<1>1", lines[2])], "line 3.*digest"),
        (lambda lines: [*lines[:2], lines[2].replace('"status":"new"', '"status":"late"')], "line 3.*digest"),
        (lambda lines: [*lines[:2], re.sub('"row_digest":"[^"]+",', "", lines[2])], "line 3.*digest"),
        (lambda lines: [*lines[:2], lines[1].replace(KEY.model, "e" * 64)], "line 3.*another key"),
    ],
    ids=itertools.count(),
)
def test_an_archive_that_was_changed_is_refused_by_line(
    service: Service, change: Callable[[list[str]], list[str]], problem: str
) -> None:
    """A foreign line is named by its number, and no line of the archive is stored."""
    measure(service, study_of(service), "job-1", BETTER, 80.0)
    lines = list(service.archive.export())
    service.studies.delete(study_of(service).study_id)

    with pytest.raises((InvalidRequest, OutsideSearchSpace), match=problem):
        service.archive.take(sealed(change(lines)))

    assert () == service.studies.list(StudyFilter()).items


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[:-1],
        lambda lines: lines[:-3],
        lambda lines: [*lines[:-2], lines[-1]],
        lambda lines: [*lines[:-1], lines[-1][:40]],
        lambda lines: [*lines, lines[-2]],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: lines[:1],
        lambda lines: [*lines[:2], lines[2].replace('"steps":20', '"steps":21'), *lines[3:]],
    ],
)
@pytest.mark.parametrize("as_read", [list, iter], ids=["at once", "line by line"])
def test_an_archive_that_is_not_whole_is_refused_whole(
    service: Service, damage: Callable[[list[str]], list[str]], as_read: Callable[[list[str]], Iterable[str]]
) -> None:
    """Cut off at the end of a line, in its middle, changed, or with something missing in between."""
    measure(service, study_of(service), "job-1", BETTER, 80.0)
    lines = list(service.archive.export())
    service.studies.delete(study_of(service).study_id)

    with pytest.raises(InvalidRequest, match=r"cut off or changed.*nothing was stored"):
        service.archive.take(as_read(damage(lines)))

    assert () == service.studies.list(StudyFilter()).items
    assert Imported(studies=1, results=6, same=0) == service.archive.take(as_read([f"{line}\n" for line in lines]))


def test_an_export_of_the_schema_before_is_taken_without_a_last_line(service: Service) -> None:
    """There it had none; whether it is whole is unknown."""
    measure(service, study_of(service), "job-1", BETTER, 80.0)
    lines = list(service.archive.export())
    service.studies.delete(study_of(service).study_id)

    assert Imported(studies=1, results=6, same=0) == service.archive.take(
        ['{"schema":1,"type":"archive"}', *lines[1:-1]]
    )


HEADER = canonical(record_to_json(run_record()))


@pytest.mark.parametrize(
    ("header", "results"),
    [
        ("nothing", 1),
        ("[1]", 1),
        ("{}", 1),
        ('{"type":"sample"}', 1),
        (HEADER, None),
        (HEADER, "many"),
        (HEADER, -1),
        (HEADER, 1.5),
        (HEADER, 2**70),
    ],
)
def test_a_run_that_cannot_be_shown_is_refused(service: Service, header: str, results: object) -> None:
    """However it came here, people must be able to look at it."""
    study = study_of(service)
    head = canonical({"type": "archive", "schema": 2})
    lines = [*list(service.archive.export())[1:-1]]
    run = {"run_id": "run-1", "job_id": "job-1", "header": header, "results": results, "received_unix_s": 1.0}

    with pytest.raises(InvalidRequest, match="line 3"):
        service.archive.take(sealed([head, *lines, canonical({"type": "run", "study_id": study.study_id, **run})]))


@pytest.mark.parametrize("schema", ["[]", "{}", "5", "null"])
def test_an_archive_of_an_unknown_schema_is_refused(service: Service, schema: str) -> None:
    """An archive is refused for any schema but the known one."""
    with pytest.raises(InvalidRequest, match="first line"):
        service.archive.take([f'{{"schema":{schema},"type":"archive"}}'])


def test_numbers_that_the_database_writes_otherwise_are_taken_back(service: Service) -> None:
    """Whole numbers and a negative zero are stored as doubles; the digest in the export is theirs."""
    whole = replace(result("job-1"), score_bytes_per_s=400_000_000, step_ms=StepTimes(100, -0.0, 100))
    tell(service, study_of(service).study_id, new_id(), replace(whole, adoption=PairedTestResult(1, -0.0, 2, 5)))
    lines = list(service.archive.export())
    service.studies.delete(study_of(service).study_id)

    assert Imported(studies=1, results=1, same=0) == service.archive.take(lines)


def test_an_archive_never_replaces_a_result(service: Service) -> None:
    """A trial that has another result here keeps it, and the import says so."""
    study_id, trial_id = study_of(service).study_id, new_id()
    tell(service, study_id, trial_id, result("job-1", BETTER, 80.0))
    lines = list(service.archive.export())
    service.studies.delete(study_id)
    tell(service, study_of(service).study_id, trial_id, result("job-1", BETTER, 81.0))

    with pytest.raises(ResultConflict, match=trial_id):
        service.archive.take(lines)


def test_a_deleted_study_is_gone_with_all_that_was_in_it(service: Service, database: Database) -> None:
    """Results, leases, summaries; only the audit keeps that there was one."""
    fill(service)
    study_id = study_of(service).study_id

    service.studies.delete(study_id)

    with pytest.raises(StudyNotFound):
        service.studies.get(study_id)
    with pytest.raises(StudyNotFound):
        service.studies.delete(study_id)
    with database.reading() as connection:
        assert ([], [], [], []) == summaries.everything(connection, study_id)
        assert [] == list(reports.of_study(connection, study_id))
        noted = audit.newest(connection, 1)[0]
    assert ("study_deleted", study_id) == (noted.event, noted.subject)


def test_studies_are_listed_in_pages(service: Service) -> None:
    """The newest first, each once, by the filters; the same key is the same study."""
    made = [study_of(service, replace(KEY, layout=(ranks,))).study_id for ranks in range(1, 6)]
    study_of(service, replace(KEY, model="c" * 64))

    first = service.studies.list(StudyFilter(model=KEY.model), limit=3)
    second = service.studies.list(StudyFilter(model=KEY.model), cursor=first.next_cursor, limit=3)

    assert made[::-1] == [study.study_id for study in (*first.items, *second.items)]
    assert second.next_cursor is None
    assert made[0] == study_of(service, replace(KEY, layout=(1,))).study_id
    for cursor in ("x", "1e999_a", "1.0_", "nan_a"):
        with pytest.raises(InvalidRequest):
            service.studies.list(StudyFilter(), cursor=cursor)
    with pytest.raises(InvalidRequest, match="layout"):
        study_of(service, replace(KEY, layout=(2, 1)))


def test_tokens_are_kept_as_hashes_and_end_when_revoked(service: Service, database: Database) -> None:
    """The secret is shown once; a wrong, foreign or revoked one is nobody's, in other processes soon."""
    clock = [0.0]
    elsewhere = Tokens(database, clock=lambda: clock[0])
    assert not service.tokens.exist()

    token, secret = service.tokens.create("ci", ["read", "report"])
    _, foreign = service.tokens.create("other", ["admin"])

    assert token.scopes == {"read", "report"}
    for tokens in (service.tokens, elsewhere):
        found = tokens.authenticate(secret)
        assert found is not None
        assert (token.token_id, "ci", token.scopes) == (found.token_id, found.name, found.scopes)
    mixed = secret[:20] + foreign[20:]
    assert [None] * 4 == [service.tokens.authenticate(wrong) for wrong in (mixed, secret[:-1], "", "rt_ä_" + "x" * 43)]
    with database.reading() as connection:
        kept = connection.execute(tokens_table.select()).mappings().all()
        assert not any(secret[20:] in str(value) for row in kept for value in row.values())
    service.tokens.revoke(token.token_id)
    assert service.tokens.authenticate(secret) is None
    clock[0] = 3.0
    assert elsewhere.authenticate(secret) is None
    assert {"ci": True, "other": False} == {item.name: item.is_revoked for item in service.tokens.list()}
    assert service.tokens.exist()
    with pytest.raises(TokenNotFound):
        service.tokens.revoke("0" * 16)
    with pytest.raises(InvalidRequest, match="scopes"):
        service.tokens.create("ci", ["root"])


def test_facts_that_no_job_gave_at_first_are_added_later(service: Service) -> None:
    """A name and sizes come from whoever knows them first; they are not replaced."""
    space = study_of(service, replace(KEY, layout=(8,))).space
    bare = service.studies.find_or_create(KEY, space_json=space)
    assert (None, ()) == (bare.model_name, bare.gradient_bytes)

    named = study_of(service)
    kept = service.studies.find_or_create(KEY, space_json=space, model_name="vgg16", gradient_bytes=[1])

    assert (bare.study_id, "resnet50") == (named.study_id, named.model_name)
    assert (named.gradient_bytes, "resnet50") == (kept.gradient_bytes, kept.model_name)
    assert DEFAULT == service.recommendations.find(QUERY).config
