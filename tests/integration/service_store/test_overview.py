# SPDX-License-Identifier: Apache-2.0
"""The overview on both databases: search, sorting and limits there, in agreement with recommendations."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import event, text

from ringtune.service.domain import Service
from ringtune.service.domain.jobs import JobReport
from ringtune.service.domain.overview import Overview, ShownStudy, Wanted
from ringtune.service.domain.summary_updates import rebuild
from ringtune.service.domain.values import RecommendationQuery, ReportedResult
from ringtune.service.errors import InvalidRequest, StudyNotFound
from ringtune.service.store import Database
from ringtune.service.store import overview as table
from ringtune.service.store.clock import UnixNow
from ringtune.service.store.tables import reports, studies
from ringtune.tuner import Config, Phase, SearchSpace, StepTimes, default_config
from ringtune.tuner.priors.relevance import StudyKey
from ringtune.tuner.space.parameters import ENGINE_PARAMETERS
from tests.unit.service.domain.reported import new_id, paired, tell

SPACE = SearchSpace(ENGINE_PARAMETERS, {}).to_json()
FAST = default_config().replace({"cycle_ms": 0.3})
FASTER = default_config().replace({"cycle_ms": 0.2})


@pytest.fixture
def overview(database: Database) -> Overview:
    """The overview under test."""
    return Overview(database)


def study(service: Service, model: str, hardware: str, name: str | None = None, target: str = "ringtune") -> str:
    """Create a study of a model and hardware named by hex digits."""
    key = StudyKey(hardware * 64, model * 64, (2,), target)
    cluster = None if name is None else f"cluster {hardware}"
    return service.studies.find_or_create(key, space_json=SPACE, model_name=name, hardware_name=cluster).study_id


def measure(service: Service, study_id: str, configs: Sequence[tuple[Config, float]], job: int = 1) -> None:
    """Report a job: a window of the default, two of each config, the default again, and the first config's test."""
    job_id = str(uuid.UUID(int=job))
    baseline, (tested, tested_ms) = (default_config(), 20.0, Phase.BASELINE), configs[0]
    search = [(config, ms, Phase.SEARCH) for config, ms in configs for _ in range(2)]
    for config, ms, phase in (baseline, *search, baseline, (tested, tested_ms, Phase.ADOPTION)):
        test = paired(20.0 / ms - 1.0) if phase is Phase.ADOPTION else None
        result = ReportedResult(config, job_id, 1e9, StepTimes(ms, 0.1, ms), 20, phase=phase, adoption=test)
        tell(service, study_id, str(uuid.uuid4()), result)


def names_of(overview: Overview, order: str = "created", **wanted: str) -> list[str | None]:
    """Return the models' names in an order."""
    return [item.model_name for item in overview.studies(Wanted(**wanted), order).items]


def steps_of(shown: ShownStudy) -> list[float | None]:
    """Return the median step times of a study's results."""
    return [item.median_step_ms for item in shown.results]


@pytest.fixture
def some(service: Service) -> dict[str, str]:
    """Four studies, by their names: one confirmed, one promising, one without a finding, one without results."""
    ids = {name: study(service, model, "c", name) for model, name in (("1", "beta"), ("2", "alpha"), ("3", "100%_x"))}
    ids["empty"] = study(service, "1", "d", "empty", target="torch-ddp")
    measure(service, ids["beta"], [(FAST, 16.0)], job=1)
    measure(service, ids["beta"], [(FAST, 16.1)], job=2)
    measure(service, ids["alpha"], [(FAST, 10.0), (FASTER, 19.0)])
    measure(service, ids["100%_x"], [(FAST, 30.0)])
    return ids


@pytest.mark.usefixtures("some")
def test_studies_are_found_by_typed_words(overview: Overview) -> None:
    """A part of a name in any case, the beginning of a fingerprint; a text like a pattern is none."""
    assert ["alpha"] == names_of(overview, text="ALPH")
    assert ["100%_x"] == names_of(overview, text="%_")
    assert ["empty"] == names_of(overview, text="cluster d")
    assert ["empty", "beta"] == names_of(overview, text="1" * 20)
    assert [] == names_of(overview, text="' OR 1=1 --")
    assert ["empty"] == names_of(overview, target="torch-ddp")
    assert ["empty", "beta"] == names_of(overview, model="1" * 64)
    assert ["100%_x", "alpha", "beta"] == names_of(overview, hardware="c" * 64)


@pytest.mark.usefixtures("some")
def test_studies_are_found_by_their_jobs_verdicts(service: Service, overview: Overview, some: dict[str, str]) -> None:
    """Adopted by one or confirmed by several, all kept, or none yet; by jobs' facts, and by their tests."""
    before = {name: names_of(overview, finding=name) for name in ("confirmed", "adopted", "kept", "open")}
    service.jobs.put(some["empty"], new_id(), JobReport("keeping_default"))

    assert {
        "confirmed": ["beta"],
        "adopted": ["alpha", "beta"],
        "kept": ["100%_x"],
        "open": ["empty"],
    } == before
    assert (["empty", "100%_x"], []) == (names_of(overview, finding="kept"), names_of(overview, finding="open"))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("created", ["empty", "100%_x", "alpha", "beta"]),
        ("-created", ["beta", "alpha", "100%_x", "empty"]),
        ("activity", ["100%_x", "alpha", "beta", "empty"]),
        ("-activity", ["beta", "alpha", "100%_x", "empty"]),
        ("-model", ["100%_x", "alpha", "beta", "empty"]),
        ("model", ["empty", "beta", "alpha", "100%_x"]),
    ],
)
@pytest.mark.usefixtures("some")
def test_studies_are_sorted(order: str, expected: list[str], overview: Overview) -> None:
    """A study without a value comes last, in both directions."""
    assert expected == names_of(overview, order)


@pytest.mark.usefixtures("some")
def test_the_largest_speed_up_comes_first(overview: Overview) -> None:
    """The lower bound that paired tests confirmed is the order; a prior's claims do not count."""
    assert ["beta", "alpha"] == names_of(overview, "speedup")[:2]
    assert "beta" == names_of(overview, "-speedup")[0]


def test_the_latest_result_first_is_the_column_that_is_shown(
    service: Service, database: Database, overview: Overview, some: dict[str, str]
) -> None:
    """The newest result that counts is the order: neither recent imports nor results kept apart."""
    absurd = ReportedResult(FAST, str(uuid.UUID(int=9)), 1e9, StepTimes(4e6, 0.1, 4e6), 20, phase=Phase.SEARCH)
    old = (("alpha", 3000.0), ("beta", 2000.0), ("100%_x", 1000.0))
    with database.writing() as connection:
        for name, age_s in old:
            of_it = (reports.update().where(reports.c.study_id == some[name])).values(received_unix_s=UnixNow() - age_s)
            connection.execute(of_it)
            rebuild(connection, [some[name]], 4.0)

    assert "quarantined" == tell(service, some["alpha"], str(uuid.uuid4()), absurd).status
    for order, expected in (("activity", 1), ("-activity", -1)):
        items = overview.studies(Wanted(), order).items
        ages = [item.idle_s for item in items if item.idle_s is not None]
        assert ["100%_x", "beta", "alpha"][::expected] == [item.model_name for item in items][:3]
        assert sorted(ages, reverse=expected < 0) == ages
        assert "empty" == items[-1].model_name


def test_pages_have_every_study_once(service: Service, overview: Overview) -> None:
    """In every order, also where many are alike."""
    for number in range(25):
        study(service, f"{number % 5:x}", f"{number // 5:x}", "same")

    for order in ("created", "-activity", "speedup", "model"):
        pages = [overview.studies(Wanted(), order, page=page, limit=10) for page in (1, 2, 3, 4)]
        ids = [item.study_id for page in pages for item in page.items]
        assert ([10, 10, 5, 0], 25) == ([len(page.items) for page in pages], len(set(ids)))
        assert {25} == {page.total for page in pages}


def test_the_best_config_is_the_recommended_one(service: Service, overview: Overview, some: dict[str, str]) -> None:
    """The best config has the evidence and the baseline of its recommendation."""
    for name in ("alpha", "beta"):
        listed = overview.study(some[name]).study
        key = listed.key
        query = RecommendationQuery(key.hardware, 2, 2, model=key.model)
        found = service.recommendations.find(query)

        assert listed.best is not None
        assert (found.config, found.is_prior) == (listed.best.config, not listed.best.is_confirmed)
        assert vars(found.evidence) | {"age_s": 0} == vars(listed.best.evidence) | {"age_s": 0}
        assert 20.0 == pytest.approx(listed.baseline_step_ms)


def test_a_study_has_its_results_in_their_order(service: Service, overview: Overview, some: dict[str, str]) -> None:
    """A study lists the results of all jobs or of one in their order, and its configs with the best first."""
    shown = overview.study(some["beta"])
    of_one = overview.study(some["beta"], str(uuid.UUID(int=2)))

    assert [20.0, 16.0, 16.0, 20.0, 16.0, 20.0, 16.1, 16.1, 20.0, 16.1] == [
        item.median_step_ms for item in shown.results
    ]
    assert [20.0, 16.1, 16.1, 20.0, 16.1] == steps_of(of_one)
    assert (10, 10) == (shown.results_in_all, of_one.results_in_all)
    assert [FAST, FASTER] == [item.config for item in overview.study(some["alpha"]).configs][:2]
    assert () == overview.study(some["empty"]).results
    with pytest.raises(StudyNotFound):
        overview.study("nothing")


@pytest.mark.usefixtures("some")
def test_hardware_and_models_are_counted(overview: Overview) -> None:
    """The hardware and models with the most results come first."""
    assert [("c" * 64, 3, 3), ("d" * 64, 1, 1)] == [(i.fingerprint, i.studies, i.others) for i in overview.hardware()]
    assert ("1" * 64, 2, 2) == next((i.fingerprint, i.studies, i.others) for i in overview.models())
    equals = [item.name or "" for item in overview.models() if (item.studies, item.others) == (1, 1)]
    assert len(equals) > 1
    assert sorted(equals) == equals
    assert ["cluster d"] == [item.name for item in overview.hardware("CLUSTER D")]
    assert ["c" * 64] == [item.fingerprint for item in overview.hardware(page=1, limit=1)]
    assert ["d" * 64] == [item.fingerprint for item in overview.hardware(page=2, limit=1)]
    assert ["d" * 64, "c" * 64] == [item.key.hardware for item in overview.of_model("1" * 64).items]
    assert ("ringtune", "torch-ddp") == overview.targets()


def test_some_studies_come_as_they_are_named(overview: Overview, some: dict[str, str]) -> None:
    """Those that do not exist are left out."""
    found = overview.some([some["empty"], "nothing", some["alpha"]])

    assert ["empty", "alpha"] == [item.model_name for item in found]


@pytest.mark.parametrize(
    ("order", "finding", "page", "limit"),
    [("size", None, 1, 50), ("created", "all", 1, 50), ("created", None, 0, 50), ("created", None, 1, 501)],
)
def test_impossible_filters_are_refused(
    order: str, finding: str | None, page: int, limit: int, overview: Overview
) -> None:
    """An impossible choice is refused with the list of possible ones."""
    with pytest.raises(InvalidRequest, match="allowed"):
        overview.studies(Wanted(finding=finding), order, page=page, limit=limit)


def test_the_first_page_reads_an_index_and_no_wide_column(service: Service, database: Database, kind: str) -> None:
    """A page in the order of creation is cut without a sort."""
    if kind != "sqlite":
        pytest.skip("PostgreSQL scans a table that is this small")
    study(service, "1", "c")
    with database.reading() as connection:
        query = str(
            table.page_query(Wanted(), "created", offset=0, limit=50).compile(
                connection, compile_kwargs={"literal_binds": True}
            )
        )
        plan = " ".join(str(row) for row in connection.execute(text(f"EXPLAIN QUERY PLAN {query}")))

    assert "ix_studies_created_unix_s_study_id" in plan
    assert "TEMP B-TREE" not in plan
    assert {"space", "gradient_bytes"}.isdisjoint(column.name for column in table.LISTED)
    assert {"space", "gradient_bytes"} <= set(studies.c.keys())


def statements_of(database: Database, act: Callable[[], object]) -> list[tuple[str, Any]]:
    """Return the statements that an act makes, with their values."""
    made: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        made.append((statement, values))

    event.listen(database.engine, "before_cursor_execute", note)
    act()
    event.remove(database.engine, "before_cursor_execute", note)
    return made


def is_sum_over_jobs(statement: str) -> bool:
    """Tell whether a statement sums, and not only over the jobs or tests that a page shows."""
    return "GROUP BY" in statement and not any(bound in statement for bound in ("LIMIT", "job_id IN"))


def test_sums_over_all_jobs_read_an_index_alone(
    service: Service, database: Database, overview: Overview, kind: str
) -> None:
    """No page reads the results of all jobs; each sum over jobs has an index with all that it reads."""
    if kind != "sqlite":
        pytest.skip("PostgreSQL scans a table that is this small")
    study_id = study(service, "1", "c")

    made = statements_of(database, lambda: (overview.study(study_id), overview.studies(Wanted(), "activity")))

    sums = [made for made in made if is_sum_over_jobs(made[0])]
    assert not [statement for statement, _ in sums if "FROM reports" in statement]
    over_jobs = [made for made in sums if "FROM job_records" in made[0]]
    assert len(over_jobs) >= 4
    with database.reading() as connection:
        for statement, values in over_jobs:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            assert "COVERING INDEX ix_job_records" in " ".join(map(str, plan)), statement


def test_a_search_by_a_name_is_counted_whole(service: Service, overview: Overview) -> None:
    """A search by name counts the studies of the same hardware or model whose jobs gave no name, or another one."""
    study(service, "1", "c", "alpha")
    study(service, "2", "c")

    assert [("cluster c", 2, 2)] == [(item.name, item.studies, item.others) for item in overview.hardware("CLUSTER")]
    study(service, "1", "d")
    assert [("alpha", 2, 2)] == [(item.name, item.studies, item.others) for item in overview.models("alph")]
