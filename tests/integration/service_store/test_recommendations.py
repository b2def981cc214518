# SPDX-License-Identifier: Apache-2.0
"""Recommendations on both databases: the answer to each question, and its stability against one job."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import text

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.recommendations import Recommendations
from ringtune.service.domain.values import PairedTestResult, RecommendationQuery
from ringtune.service.errors import InvalidRequest, OutsideSearchSpace
from ringtune.service.store import Database
from ringtune.service.store import database as store
from ringtune.shared_service.advice.answers import rest_key
from ringtune.shared_service.rest_models import Recommendation
from ringtune.tuner import Config, Phase, search_space
from tests.unit.service.domain.reported import (
    BETTER,
    DEFAULT,
    HARDWARE,
    KEY,
    OTHER,
    QUERY,
    STEP_BYTES,
    measure,
    new_id,
    paired,
    result,
    study_of,
    tell,
)

Lie = Callable[[Service, str], None]
LIMIT = ServiceLimits().max_speedup


def answer(recommendation: Recommendation) -> tuple[str, Config, bool]:
    """Return the parts of a recommendation that a job acts upon."""
    return recommendation.source, Config(recommendation.config), recommendation.is_prior


def test_no_evidence_is_an_answer_too(service: Service) -> None:
    """The default, without evidence, and not called a prior."""
    found = service.recommendations.find(QUERY)

    assert ("default", DEFAULT, False) == answer(found)
    assert (0, 0, None) == (found.evidence.trials, found.evidence.jobs, found.evidence.speedup)


def test_one_job_gives_a_prior_and_a_second_confirms_it(service: Service) -> None:
    """A config that one job adopted is to be tested first, without a gain; one that two adopted is recommended."""
    study = study_of(service)
    measure(service, study, "job-1", BETTER, 80.0)
    alone = service.recommendations.find(QUERY)

    measure(service, study, "job-2", BETTER, 82.0)
    confirmed = service.recommendations.find(QUERY)

    assert ("exact", BETTER, True) == answer(alone)
    assert ("prior", None, None) == (alone.standing, alone.evidence.speedup, alone.evidence.ci_low)
    assert ("exact", BETTER, False) == answer(confirmed)
    assert ("confirmed", 0.9, 2) == (confirmed.standing, confirmed.evidence.ci_level, confirmed.evidence.trusted_jobs)
    evidence = confirmed.evidence
    assert (6, 2, "ringtune", rest_key(KEY), 0.0) == (
        evidence.trials,
        evidence.jobs,
        confirmed.target,
        confirmed.key,
        confirmed.distance,
    )
    assert evidence.ci_low is not None
    assert evidence.speedup is not None
    assert evidence.ci_high is not None
    assert evidence.age_s is not None
    assert 0.0 < evidence.ci_low < evidence.speedup < evidence.ci_high
    assert 100.0 / 82.0 - 1.0 == pytest.approx(evidence.speedup, abs=1e-4)
    assert 0.0 <= evidence.age_s < 60.0


def test_a_baseline_that_comes_later_counts(service: Service) -> None:
    """Before it there is no measurement to compare with; with it the config's earlier results are evidence."""
    study_id = study_of(service).study_id
    tell(service, study_id, new_id(), result("job-1", BETTER, 80.0, adoption=paired(0.25)))
    before = service.recommendations.find(QUERY)

    tell(service, study_id, new_id(), result("job-1", phase=Phase.BASELINE))

    assert ("default", DEFAULT, False) == answer(before)
    assert ("exact", BETTER, True) == answer(service.recommendations.find(QUERY))


def test_a_job_without_a_baseline_is_no_evidence(service: Service) -> None:
    """A reporter that measured the config and no baseline does not count."""
    study = study_of(service)
    measure(service, study, "job-1", BETTER, 80.0)
    tell(service, study.study_id, new_id(), result("job-2", BETTER, 80.0))

    assert 1 == service.recommendations.find(QUERY).evidence.jobs


def test_of_claims_that_scatter_the_smaller_is_stated(service: Service) -> None:
    """Two jobs adopted it, with 67 % and 6 %: the lower median is promised."""
    study = study_of(service)
    for job_id, step_ms in (("job-1", 60.0), ("job-2", 94.0)):
        measure(service, study, job_id, BETTER, step_ms)

    found = service.recommendations.find(QUERY)

    assert ("exact", BETTER, False) == answer(found)
    assert 100.0 / 94.0 - 1.0 == pytest.approx(found.evidence.speedup, abs=1e-4)


def praise_another(service: Service, study_id: str) -> None:
    """Report another config as very fast, many times and under many runs."""
    tell(service, study_id, new_id(), result("liar", phase=Phase.BASELINE))
    for number in range(30):
        praised = replace(result("liar", OTHER, 25.0), run_id=f"run-{number}")
        tell(service, study_id, new_id(), praised)


def praise_with_tests(service: Service, study_id: str) -> None:
    """Report paired tests of another config, as precise as can be."""
    tell(service, study_id, new_id(), result("liar", phase=Phase.BASELINE))
    for number in range(30):
        test = PairedTestResult(3.0, 2.999, 3.001, 1000)
        tell(service, study_id, new_id(), replace(result("liar", OTHER, adoption=test), run_id=f"run-{number}"))


def blame_the_best(service: Service, study_id: str) -> None:
    """Report the recommended config as very slow."""
    tell(service, study_id, new_id(), result("liar", phase=Phase.BASELINE))
    for number in range(30):
        test = PairedTestResult(-0.7, -0.71, -0.69, 1000)
        tell(service, study_id, new_id(), replace(result("liar", BETTER, adoption=test), run_id=f"run-{number}"))


def report_absurd_scores(service: Service, study_id: str) -> None:
    """Report implausible scores and speed-ups, of a config that is the second best."""
    absurd = [
        result("liar", OTHER, 1e-2),
        replace(result("liar", OTHER), score_bytes_per_s=1e300),
        result("liar", OTHER, adoption=PairedTestResult(1e6, 1e5, 1e7, 5)),
        result("liar", OTHER, adoption=PairedTestResult(0.1, -0.9999999999999999, 1e300, 5)),
    ]
    tell(service, study_id, new_id(), result("liar", phase=Phase.BASELINE))
    stored = service.ledger.tell_batch(study_id, [(new_id(), item) for item in absurd * 10])
    assert {"quarantined"} == {item.status for item in stored}


def support_the_second(service: Service, study_id: str) -> None:
    """Praise the config that two honest jobs measured as good, but not as the best."""
    tell(service, study_id, new_id(), result("liar", phase=Phase.BASELINE))
    test = PairedTestResult(3.0, 2.999, 3.001, 1000)
    for _ in range(30):
        tell(service, study_id, new_id(), result("liar", OTHER, adoption=test))


@pytest.mark.parametrize(
    "lie", [praise_another, praise_with_tests, blame_the_best, report_absurd_scores, support_the_second]
)
def test_one_job_does_not_change_the_answer_to_others(service: Service, lie: Lie) -> None:
    """The config that two jobs confirmed stays recommended, whatever one job reports and however often."""
    study = study_of(service)
    for job_id in ("job-1", "job-2"):
        measure(service, study, job_id, BETTER, 80.0)
        measure(service, study, job_id, OTHER, 90.0)
    before = service.recommendations.find(QUERY)

    lie(service, study.study_id)

    after = service.recommendations.find(QUERY)
    assert ("exact", BETTER, False) == answer(before) == answer(after)


@pytest.mark.parametrize("lie", [praise_another, praise_with_tests, report_absurd_scores])
def test_one_job_alone_never_gives_more_than_a_prior(service: Service, lie: Lie) -> None:
    """A config of a single reporter is at most to be tested."""
    lie(service, study_of(service).study_id)

    found = service.recommendations.find(QUERY)

    assert found.is_prior or (DEFAULT == found.config)


def test_the_first_reporter_does_not_decide_alone(service: Service) -> None:
    """Sizes that cannot be, a fixed value, a narrow space without algorithms: others are believed all the same."""
    narrow = search_space({"cycle_ms": 1.0}, DEFAULT).to_json()
    first = service.studies.find_or_create(KEY, space_json=narrow, gradient_bytes=[1])
    config = BETTER.replace({"cycle_ms": 2.0, "allreduce_algorithm": "ring"})
    for job_id in ("job-1", "job-2"):
        measure(service, first, job_id, config, 80.0)

    assert ("exact", config, False) == answer(service.recommendations.find(QUERY))
    with pytest.raises(OutsideSearchSpace):
        tell(service, first.study_id, new_id(), result("job-1", BETTER.replace({"allreduce_algorithm": "a b"})))


def test_a_lie_that_others_look_at_is_over(service: Service) -> None:
    """A lie is a prior until another job tests it; then the newest verdict is the answer, and the lie tried at most."""
    study = study_of(service)
    praise_with_tests(service, study.study_id)
    before = service.recommendations.find(QUERY)

    measure(service, study, "job-1", OTHER, 130.0)
    after = service.recommendations.find(QUERY)
    measure(service, study, "job-2", OTHER, 130.0)
    outvoted = service.recommendations.find(QUERY)

    assert ("exact", OTHER, True) == answer(before)
    assert (("exact", DEFAULT, False), OTHER) == (answer(after), after.try_first)
    assert (("exact", DEFAULT, False), None) == (answer(outvoted), outvoted.try_first)


def test_the_same_model_at_another_layout_is_a_prior_from_there(service: Service) -> None:
    """The nearer layout answers, with its key and distance, never as confirmed."""
    near, far = replace(KEY, layout=(4,)), replace(KEY, layout=(16, 16))
    for key, config in ((near, BETTER), (far, OTHER)):
        for job_id in ("job-1", "job-2"):
            measure(service, study_of(service, key), job_id, config, 80.0)

    found = service.recommendations.find(QUERY)

    assert ("nearest", BETTER, True) == answer(found)
    assert (rest_key(near), 1.0) == (found.key, found.distance)


def test_one_job_at_a_nearer_layout_does_not_displace_a_confirmed_config(service: Service) -> None:
    """A config that two jobs confirmed farther away outranks the report of one job nearer."""
    for job_id in ("job-1", "job-2"):
        measure(service, study_of(service, replace(KEY, layout=(16,))), job_id, BETTER, 80.0)
    for layout in ((3,), (4,), (5,), (6,)):
        measure(service, study_of(service, replace(KEY, layout=layout)), "liar", OTHER, 99.0)

    found = service.recommendations.find(QUERY)

    assert ("nearest", BETTER, True) == answer(found)
    assert (2, None) == (found.evidence.jobs, found.evidence.speedup)
    assert "16 ranks" in str(found.reason)


def test_a_config_that_is_the_default_here_is_not_recommended(service: Service) -> None:
    """A gain that came from a switch that cannot act here is no gain here."""
    hosts = replace(KEY, layout=(2, 2))
    for job_id in ("job-1", "job-2"):
        measure(service, study_of(service, hosts), job_id, DEFAULT.replace({"hierarchical_allreduce": True}), 70.0)

    assert "default" == service.recommendations.find(QUERY).source


def test_one_study_does_not_decide_a_targets_default(service: Service) -> None:
    """A study's creator cannot set a target's default: all targets but the engine default to no settings."""
    threads = {"kind": "number", "name": "threads", "low": 1, "high": 64, "default": 63, "step": 1}
    service.studies.find_or_create(replace(KEY, target="openmpi"), space_json={"parameters": [threads], "fixed": {}})

    assert Config({}) == service.recommendations.find(replace(QUERY, target="openmpi")).config


def test_a_switch_that_cannot_act_here_is_left_at_its_value(service: Service) -> None:
    """The hierarchical switch, which cannot act on one host, keeps its value there."""
    hosts = replace(KEY, layout=(2, 2))
    hierarchical = BETTER.replace({"hierarchical_allreduce": True})
    space = study_of(service, hosts).space
    assert {"hierarchical_allreduce"} <= set(space["fixed"])
    for job_id in ("job-1", "job-2"):
        measure(service, study_of(service, hosts), job_id, hierarchical, 40.0)

    found = service.recommendations.find(QUERY)

    assert ("nearest", BETTER, True) == answer(found)


def test_another_model_here_answers_only_if_its_tensors_are_similar(service: Service) -> None:
    """The same hardware, a tensor set of a like size; none where the sizes are not known or far."""
    for job_id in ("job-1", "job-2"):
        measure(service, study_of(service), job_id, BETTER, 80.0)
    unknown = replace(QUERY, model="c" * 64)
    similar = replace(unknown, step_bytes=STEP_BYTES // 2, tensors=12)
    different = replace(unknown, step_bytes=STEP_BYTES * 1000, tensors=9000)

    answers = [answer(service.recommendations.find(query)) for query in (unknown, similar, different)]

    assert [("default", DEFAULT, False), ("nearest", BETTER, True), ("default", DEFAULT, False)] == answers


def test_a_name_of_several_models_returns_the_candidates(service: Service) -> None:
    """The default and the fingerprints to choose from; a name of one model is as good as its fingerprint."""
    measure(service, study_of(service), "job-1", BETTER, 80.0)
    named = replace(QUERY, model=None, model_name="resnet50")
    assert ("exact", BETTER, True) == answer(service.recommendations.find(named))

    empty = study_of(service, replace(KEY, model="c" * 64))
    assert "exact" == service.recommendations.find(named).source
    measure(service, empty, "job-1", BETTER, 80.0)
    ambiguous = service.recommendations.find(named)

    assert ("default", DEFAULT, False) == answer(ambiguous)
    assert [(KEY.model, 6), ("c" * 64, 6)] == [(item.model_fingerprint, item.trials) for item in ambiguous.candidates]
    assert "default" == service.recommendations.find(replace(named, model_name="nobody's")).source


def test_other_targets_and_surfaces_are_apart(service: Service) -> None:
    """Results of another target, or from before the surface changed, are not answered."""
    for job_id in ("job-1", "job-2"):
        measure(service, study_of(service), job_id, BETTER, 80.0)

    newer = service.recommendations.find(replace(QUERY, surface_version=2))
    elsewhere = service.recommendations.find(replace(QUERY, target="openmpi"))

    assert ("default", DEFAULT, False) == answer(newer)
    assert ("default", Config({}), "openmpi") == (elsewhere.source, elsewhere.config, elsewhere.target)


def test_a_query_that_makes_no_sense_is_refused(service: Service) -> None:
    """No model, or no layout."""
    for query in (
        replace(QUERY, model=None),
        replace(QUERY, local_size=3),
        RecommendationQuery(HARDWARE, 2**24, 1, "c" * 64),
    ):
        with pytest.raises(InvalidRequest):
            service.recommendations.find(query)


def test_a_layout_of_too_many_hosts_is_not_made(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    """The number of hosts is counted before the layout is made."""
    monkeypatch.setattr(RecommendationQuery, "layout", property(lambda _: pytest.fail("the layout was made")))

    with pytest.raises(InvalidRequest, match="4096 hosts"):
        service.recommendations.find(RecommendationQuery(HARDWARE, 2**22, 1, "c" * 64))


def test_connections_that_the_database_ended_cost_no_answer(
    template: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read is made again on another one; a writer asks first whether one that was idle still holds."""
    database = Database.open(template("postgresql"))
    recommendations = Recommendations(database)

    recommendations.find(QUERY)
    end_connections(database)
    assert "default" == recommendations.find(QUERY).source

    monkeypatch.setattr(store, "IDLE_S", -1.0)
    end_connections(database)
    with database.writing() as connection:
        assert 1 == connection.execute(text("SELECT 1")).scalar_one()
    database.close()


def end_connections(database: Database) -> None:
    """Have the server end this database's connections, but for the one that asks for it."""
    ended = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid != pg_backend_pid() AND datname = :name"
    )
    other = Database.open(database.engine.url.render_as_string(hide_password=False))
    with other.looking() as connection:
        assert connection.execute(text(ended), {"name": database.engine.url.database}).scalars().all()
    other.close()
