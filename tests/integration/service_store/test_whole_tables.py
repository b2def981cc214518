# SPDX-License-Identifier: Apache-2.0
"""Tables of any length, on both databases: files have all rows, and pages read those that they show."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ringtune.dashboards.web.tables import config_table, csv_lines, job_table, result_table, study_table
from ringtune.service.domain import Service, verdicts, whole_tables
from ringtune.service.domain.overview import Overview, Wanted
from ringtune.service.domain.whole_tables import WholeTables
from ringtune.service.errors import InvalidRequest, StudyNotFound
from ringtune.service.store import Database, job_facts, job_records, job_states
from ringtune.service.store import overview as overview_table
from ringtune.service.store.rows import all_of
from ringtune.tuner import Config, Phase
from tests.integration.service_store.silent_jobs import announce
from tests.unit.service.domain.reported import BETTER, DEFAULT, KEY, new_id, result, study_of, tell

JOBS, CHUNK, SHOWN = 11, 4, 3
SHADOWING = Config({"confirmed": "true", "speedup": "9.99", "jobs": "9"})


@pytest.fixture
def tables(database: Database, monkeypatch: pytest.MonkeyPatch) -> WholeTables:
    """Whole tables, read a few rows at a time."""
    monkeypatch.setattr(whole_tables, "CHUNK", CHUNK)
    return WholeTables(database)


def rows_of(lines: Iterator[str]) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    return list(csv.DictReader(io.StringIO("".join(lines))))


def measured(service: Service) -> tuple[str, list[Config]]:
    """Report a window of another config by each of some jobs; return the study and the configs."""
    study_id = study_of(service).study_id
    configs = [DEFAULT.replace({"cycle_ms": 0.1 + number / 100}) for number in range(JOBS)]
    for number, config in enumerate(configs):
        for phase, shown, step_ms in ((Phase.WARMUP, DEFAULT, 5.0), (Phase.SEARCH, config, 10.0 + number)):
            tell(service, study_id, new_id(), result(f"job-{number}", shown, step_ms, phase=phase))
    return study_id, configs


def test_files_have_all_rows_in_the_order_of_their_pages(
    service: Service, database: Database, tables: WholeTables
) -> None:
    """Each row is there once, and has all results of its job, wherever a page cuts."""
    study_id, configs = measured(service)
    shown = Overview(database).study(study_id)

    jobs = rows_of(csv_lines(map(job_table, tables.jobs(study_id))))
    results = rows_of(csv_lines(map(result_table, tables.results(study_id)), tables.knobs(study_id)))
    best = rows_of(csv_lines(map(config_table, tables.configs(study_id)), tables.knobs(study_id)))

    assert [job.job_id for job in shown.jobs] == [row["job"] for row in jobs]
    assert {f"job-{number}": str(10.0 + number) for number in range(JOBS)} == {
        row["job"]: row["fastest_step_ms"] for row in jobs
    }
    assert [str(item.number) for item in reversed(shown.results)] == [row["number"] for row in results]
    assert [item.config["cycle_ms"] for item in shown.configs] == [float(row["config.cycle_ms"]) for row in best]
    assert len(set(configs)) == len(best)


def test_a_file_has_the_studies_of_all_pages_of_a_list(
    service: Service, database: Database, tables: WholeTables
) -> None:
    """The order is the list's."""
    made = {study_of(service, replace(KEY, model=f"{number:064x}"), f"m {number}").study_id for number in range(JOBS)}

    rows = rows_of(csv_lines(map(study_table, tables.studies(Wanted(), "model"))))

    pages = [Overview(database).studies(Wanted(), "model", page=page, limit=CHUNK).items for page in (1, 2, 3)]
    assert [item.study_id for page in pages for item in page] == [row["study"] for row in rows]
    assert made == {row["study"] for row in rows}


def test_a_file_of_an_unknown_study_is_refused(tables: WholeTables) -> None:
    """Before its first row."""
    for rows in (tables.jobs("nothing"), tables.configs("nothing"), tables.results("nothing")):
        with pytest.raises(StudyNotFound):
            next(iter(rows))
    with pytest.raises(InvalidRequest, match="order"):
        next(tables.studies(Wanted(), "taste"))


def test_knobs_take_no_other_column_s_place(service: Service, tables: WholeTables) -> None:
    """A knob may be called as a column is; rows of several spaces have all their knobs' columns."""
    study_id = service.studies.find_or_create(
        replace(KEY, target="other"),
        space_json={"parameters": [{"kind": "boolean", "name": "x", "default": True}], "fixed": {}},
        token_id="1" * 16,
    ).study_id
    for config in (SHADOWING, Config({"z": 3})):
        tell(service, study_id, new_id(), result(new_id(), config))

    for lines in (
        csv_lines(map(config_table, tables.configs(study_id)), tables.knobs(study_id)),
        csv_lines(map(result_table, tables.results(study_id)), tables.knobs(study_id)),
    ):
        rows = rows_of(lines)
        assert {("9.99", ""), ("", "3")} == {(row["config.speedup"], row["config.z"]) for row in rows}
        assert not {"true", "9.99"} & {row.get("confirmed", "") for row in rows}
        assert not {"9.99"} & {row.get("speedup", "") for row in rows}


@pytest.mark.parametrize(
    "mark", ["=", "\uff1d", "\ufe66", "\uff0b", "\ufe62", "\uff0d", "\ufe63", "\u2212", "\uff20", "-", "\t"]
)
def test_no_text_is_a_formula_however_wide_its_sign_is(mark: str) -> None:
    """Some spreadsheets read the wide and small signs of other scripts as the plain ones."""
    (row,) = rows_of(csv_lines([[{"name": f"{mark}1+1"}]]))

    assert f"'{mark}1+1" == row["name"]


def test_a_page_reads_the_jobs_that_it_shows_and_counts_the_others(
    service: Service, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Order, limit and counts are the database's: of however many jobs a page reads a few."""
    study_id, _ = measured(service)
    tell(service, study_id, new_id(), result("won", BETTER, 90.0))
    for number in range(JOBS):
        announce(service, database, study_id, f"says {number}", 5000.0 + number)
    read: Counter[str] = Counter()

    def counting(found: Any, kind: Any) -> Sequence[Any]:
        rows = all_of(found, kind)
        read[kind.__name__] += len(rows)
        return rows

    monkeypatch.setattr(verdicts, "MAX_JOBS", SHOWN)
    for module in (job_facts, job_records, overview_table):
        monkeypatch.setattr(module, "all_of", counting)
    counted: list[tuple[str, str, int]] = []
    plain_counts = job_states.counts

    def counts(*arguments: Any, **options: Any) -> Sequence[tuple[str, str, int]]:
        counted.extend(plain_counts(*arguments, **options))
        return counted

    monkeypatch.setattr(job_states, "counts", counts)

    shown = Overview(database).study(study_id)

    assert SHOWN == len(shown.jobs)
    assert {"running": JOBS + 1, "lost": JOBS} == shown.study.states
    assert (0, 2 * SHOWN) == (read["AgedJobFacts"], read["AgedJobRecord"])  # for the jobs, and for their parts
    assert 2 == len(counted)
