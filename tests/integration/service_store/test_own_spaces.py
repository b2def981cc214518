# SPDX-License-Identifier: Apache-2.0
"""Jobs of one key with search spaces of their own, on both databases: each gets configs that are legal for it."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert, select

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.asked_space import AskedSpace
from ringtune.service.domain.design_tasks import MAX_QUEUED, DesignTasks
from ringtune.service.domain.said_spaces import MAX_SAID
from ringtune.service.domain.study_cache import StudyCache
from ringtune.service.errors import OutsideSearchSpace
from ringtune.service.store import Database, migrate
from ringtune.service.store.tables import queued_suggestions
from ringtune.tuner import Config, SearchSpace, Value, search_space
from tests.integration.service_store.leases import end_lease
from tests.unit.service.domain.reported import BETTER, DEFAULT, KEY, OTHER, measure, new_id, result, study_of, tell
from tests.waiting import wait_until

WIDE = search_space({}, DEFAULT)
FIRST, SECOND, THIRD = "1" * 16, "2" * 16, "3" * 16
NO_CACHE = DEFAULT.replace({"response_cache": False})
OTHER_KEY = replace(KEY, target="other-engine")
OTHER_PARAMETERS: list[dict[str, Any]] = [
    {"kind": "number", "name": "bucket_mb", "low": 1.0, "high": 64.0, "default": 25.0},
    {"kind": "category", "name": "algorithm", "choices": ["ring", "a tree"], "default": "ring"},
]


def narrow(**fixed: Value) -> SearchSpace:
    """Return the engine's space with some knobs fixed by a user."""
    return search_space(fixed, DEFAULT.replace(fixed))


def asked(service: Service, study_id: str, space: SearchSpace | None = None) -> Config:
    """Return the config that a new trial gets."""
    described = None if space is None else space.to_json()
    return service.suggestions.ask(study_id, new_id(), "job-1", 60.0, space_json=described).config


def queue_up(database: Database, study_id: str, space: SearchSpace, *configs: Config) -> None:
    """Keep configs as a designer suggests them for a space."""
    cache = StudyCache(database)
    wanted = AskedSpace.of(cache.get(study_id), space)
    DesignTasks(database, cache, ServiceLimits()).keep(wanted, [config.to_json() for config in configs])


@pytest.mark.parametrize("first_fixed", [{}, {"response_cache": True}])
def test_each_job_gets_configs_that_are_legal_for_it(service: Service, first_fixed: dict[str, Value]) -> None:
    """A job gets legal configs, and may report, whatever knobs the key's first job had fixed."""
    first = search_space(first_fixed, DEFAULT).to_json()
    study_id = service.studies.find_or_create(KEY, space_json=first).study_id
    spaces = (narrow(response_cache=False), narrow(fusion_bytes=0, cycle_ms=0.5), WIDE)

    for space in spaces:
        configs = [asked(service, study_id, space) for _ in range(12)]
        assert all(space.contains(config) for config in configs)
        assert len(set(configs)) > 6
        statuses = [tell(service, study_id, new_id(), result("job-2", config)).status for config in configs]
        assert {"new"} == set(statuses)
    of_study = SearchSpace.from_json(service.studies.get(study_id).space)
    assert all(of_study.contains(asked(service, study_id)) for _ in range(12))


def test_a_job_that_fixed_everything_gets_its_one_config(service: Service) -> None:
    """There is no choice."""
    study_id = study_of(service).study_id

    given = {asked(service, study_id, narrow(**BETTER)) for _ in range(8)}

    assert {BETTER} == given


def test_queued_suggestions_are_given_in_their_space_alone(service: Service, database: Database) -> None:
    """A suggestion for a narrower space is no suggestion for a wider one, and the other way round."""
    study_id = study_of(service).study_id
    without = narrow(response_cache=False)
    queue_up(database, study_id, WIDE, BETTER)
    queue_up(database, study_id, without, NO_CACHE)

    assert [NO_CACHE, BETTER] == [asked(service, study_id, without), asked(service, study_id)]
    assert 0 == service.load().queued_suggestions


def test_the_study_s_own_space_is_one_with_it(service: Service, database: Database) -> None:
    """However its numbers are written: a config computed for the study is not computed again."""
    study_id = study_of(service).study_id
    queue_up(database, study_id, WIDE, BETTER)
    written: dict[str, Any] = json.loads(json.dumps(WIDE.to_json()))
    for parameter in written["parameters"]:
        parameter.update({name: float(parameter[name]) for name in ("low", "high") if name in parameter})

    given = service.suggestions.ask(study_id, new_id(), "job-1", 60.0, space_json=written)

    assert (BETTER, "gp") == (given.config, given.designer)


def test_a_config_that_was_given_up_goes_to_a_job_for_which_it_is_legal(service: Service, database: Database) -> None:
    """The next job that may run it gets it; the others are not kept waiting."""
    study_id = study_of(service).study_id
    without, with_it = narrow(response_cache=False), narrow(response_cache=True)
    for space in (without, with_it):
        given_up = service.suggestions.ask(study_id, new_id(), "job-1", 60.0, space_json=space.to_json())
        end_lease(database, given_up.trial_id)
        given = [asked(service, study_id, other) for other in (with_it, without) if other is not space]

        assert given_up.config not in given
        assert given_up.config == asked(service, study_id, space)


def test_no_token_chooses_the_measurements_of_others(service: Service, database: Database) -> None:
    """A config that was given up goes to another token if the designer computed it for that very space, and once.

    A space in which all is fixed makes any config; so the token that asked in it is the only one to get it back.
    """
    study_id = study_of(service).study_id
    jobs = {token: new_id() for token in (FIRST, SECOND, THIRD)}

    def given_up(token_id: str, space: SearchSpace) -> Config:
        described = space.to_json()
        ask = service.suggestions.ask(study_id, new_id(), jobs[token_id], 60.0, space_json=described, token_id=token_id)
        end_lease(database, ask.trial_id)
        return ask.config

    forced = narrow(**BETTER)
    assert BETTER == given_up(FIRST, forced)
    queue_up(database, study_id, WIDE, OTHER)
    queue_up(database, study_id, forced, BETTER)

    assert OTHER == given_up(SECOND, WIDE)
    assert OTHER == given_up(THIRD, WIDE)
    assert given_up(SECOND, WIDE) not in {BETTER, OTHER}
    assert BETTER == given_up(FIRST, forced)


def test_the_same_trial_gets_the_same_config_whatever_space_it_names(service: Service) -> None:
    """A lost answer is answered again as it was."""
    study_id, trial_id = study_of(service).study_id, new_id()
    spaces = [space.to_json() for space in (narrow(response_cache=False), WIDE)]

    first, again = (service.suggestions.ask(study_id, trial_id, "job-1", 60.0, space_json=item) for item in spaces)

    assert (first.config, False) == (again.config, again.is_new)


@pytest.mark.parametrize(
    ("field", "value"),
    [("low", 0.01), ("high", 60.0), ("name", "cycle_s"), ("kind", "boolean"), ("default", "many")],
)
def test_a_space_beyond_the_legal_one_is_refused(service: Service, field: str, value: object) -> None:
    """A space beyond the legal one is refused as at a study's creation, and no lease is given."""
    study_id = study_of(service).study_id
    described = WIDE.to_json()
    next(item for item in described["parameters"] if item["name"] == "cycle_ms")[field] = value

    with pytest.raises(OutsideSearchSpace):
        service.suggestions.ask(study_id, new_id(), "job-1", 60.0, space_json=described)
    assert 0 == service.load().live_leases


def test_of_another_target_each_token_gives_its_own_space(service: Service) -> None:
    """A token asks and reports in its own space, and in no other, whoever came first with whatever space.

    The one that came first is held to its own space, too.
    """
    odd = {"parameters": [{"kind": "boolean", "name": "x", "default": True}], "fixed": {}}
    own = {"parameters": OTHER_PARAMETERS, "fixed": {}}
    study_id = service.studies.find_or_create(OTHER_KEY, space_json=odd, token_id=FIRST).study_id
    config, other = Config({"bucket_mb": 2.0, "algorithm": "a tree"}), Config({"x": False})

    assert study_id == service.studies.find_or_create(OTHER_KEY, space_json=own, token_id=SECOND).study_id
    ask = service.suggestions.ask(study_id, new_id(), "job-2", 60.0, token_id=SECOND)

    assert SearchSpace.from_json(own).contains(ask.config)
    reports = {token: replace(result(f"job-{token}", config), token_id=token) for token in (FIRST, SECOND)}
    assert "new" == tell(service, study_id, new_id(), reports[SECOND]).status
    batch = service.ledger.tell_batch(study_id, [(new_id(), reports[FIRST]), (new_id(), reports[SECOND])])
    assert ["refused", "new"] == [stored.status for stored in batch]
    with pytest.raises(OutsideSearchSpace, match="bucket_mb"):
        tell(service, study_id, new_id(), replace(reports[SECOND], config=config.replace({"bucket_mb": 65.0})))
    with pytest.raises(OutsideSearchSpace, match="unknown"):
        tell(service, study_id, new_id(), replace(reports[SECOND], config=other))
    assert {"x"} == set(service.suggestions.ask(study_id, new_id(), "job-1", 60.0, token_id=FIRST).config)


def test_a_space_that_is_said_when_asking_is_one_to_report_in(service: Service) -> None:
    """A token that names a space for one ask may report in it, and has so many of them: the oldest are forgotten."""
    own = {"parameters": OTHER_PARAMETERS, "fixed": {}}
    study_id = service.studies.find_or_create(OTHER_KEY, space_json=own).study_id
    wider: dict[str, Any] = {"parameters": [{**OTHER_PARAMETERS[0], "high": 256.0}, OTHER_PARAMETERS[1]], "fixed": {}}
    config = Config({"bucket_mb": 200.0, "algorithm": "ring"})

    with pytest.raises(OutsideSearchSpace):
        tell(service, study_id, new_id(), result("job-1", config))
    service.suggestions.ask(study_id, new_id(), "job-1", 60.0, space_json=wider)
    assert "new" == tell(service, study_id, new_id(), result("job-1", config)).status
    for number in range(MAX_SAID + 1):
        other = {"parameters": [{**OTHER_PARAMETERS[0], "high": 64.0 - number / 2}, OTHER_PARAMETERS[1]], "fixed": {}}
        service.studies.find_or_create(OTHER_KEY, space_json=other)

    with pytest.raises(OutsideSearchSpace):
        tell(service, study_id, new_id(), result("job-1", config))


def test_a_designer_is_asked_in_the_job_s_space(service: Service, database: Database) -> None:
    """A designer sees only the results and leases that are legal in the job's space."""
    study = study_of(service)
    measure(service, study, "job-1", BETTER, 80.0)
    measure(service, study, "job-2", NO_CACHE, 90.0)
    without = narrow(response_cache=False)
    at_work = [asked(service, study.study_id, space) for space in (WIDE, without)]
    cache = StudyCache(database)
    problems = DesignTasks(database, cache, ServiceLimits())

    posed = problems.task_of(AskedSpace.of(cache.get(study.study_id), without))

    assert posed is not None
    assert without.to_json() == posed["space"]
    assert [NO_CACHE.to_json()] == [trial["config"] for trial in posed["trials"]]
    assert [at_work[1].to_json()] == posed["pending"]


def test_the_queue_of_a_study_is_bounded_whatever_spaces_are_asked_for(service: Service, database: Database) -> None:
    """The oldest go: they wait for jobs that asked and ended."""
    study_id = study_of(service).study_id
    for number in range(MAX_QUEUED + 5):
        space = narrow(cycle_ms=0.1 + number / 100)
        queue_up(database, study_id, space, DEFAULT.replace({"cycle_ms": 0.1 + number / 100}))

    with database.reading() as connection:
        waiting = connection.execute(select(queued_suggestions).order_by(queued_suggestions.c.number)).mappings().all()

    assert MAX_QUEUED == len(waiting)
    assert pytest.approx(0.1 + 5 / 100) == json.loads(waiting[0]["config"])["cycle_ms"]


def test_suggestions_are_computed_for_each_space(template: Callable[[str], str]) -> None:
    """The designer's process computes for the study and for a job that has fixed a knob."""
    database = Database.open(template("sqlite"))
    service = Service(database, policy=ServiceLimits(queued_suggestions=2))
    service.start()
    study = study_of(service)
    measure(service, study, "job-1", BETTER, 80.0)
    without = narrow(response_cache=False)

    for space in (None, without):
        asked(service, study.study_id, space)
    wait_until(lambda: service.load().queued_suggestions == 4)
    given = [
        service.suggestions.ask(study.study_id, new_id(), "job-1", 60.0, space_json=without.to_json()) for _ in range(2)
    ]

    assert ["gp", "gp"] == [item.designer for item in given]
    assert all(without.contains(item.config) for item in given)
    service.close()


def test_a_program_of_the_schema_before_fills_the_study_s_own_queue(database: Database, service: Service) -> None:
    """A program of the schema before knows no spaces, and leaves no row that a newer one could misunderstand."""
    study_id = study_of(service).study_id
    queue_up(database, study_id, narrow(response_cache=False), NO_CACHE)
    row = {"study_id": study_id, "config": json.dumps(BETTER.to_json()), "config_digest": "c" * 64, "designer": "gp"}
    with database.writing() as connection:
        connection.execute(insert(queued_suggestions).values(**row))

    assert BETTER == asked(service, study_id)
    migrate(database, "baselines")
    migrate(database)
    assert 0 == service.load().queued_suggestions
