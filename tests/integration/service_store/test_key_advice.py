# SPDX-License-Identifier: Apache-2.0
"""The rule of recommendations on both databases: verdicts before windows, own ones before neighbours', any machine."""

from dataclasses import replace

from ringtune.service.domain import Service
from ringtune.service.domain.jobs import JobReport
from ringtune.shared_service.advice.answers import rest_key
from ringtune.shared_service.rest_models import Recommendation
from ringtune.tuner import Config
from tests.unit.service.domain.reported import BETTER, DEFAULT, KEY, OTHER, QUERY, look, measure, study_of


def answer(recommendation: Recommendation) -> tuple[str, Config, bool]:
    """Return the parts of a recommendation that a job acts upon."""
    return recommendation.source, Config(recommendation.config), recommendation.is_prior


def test_windows_alone_seed_a_search_and_are_no_answer(service: Service) -> None:
    """However many jobs looked: without a paired test the answer is the default, and the config is tried first."""
    study = study_of(service)
    for number in range(5):
        look(service, study, f"job-{number}", BETTER, 60.0)

    found = service.recommendations.find(QUERY)

    assert ("default", DEFAULT, False) == answer(found)
    assert (None, 0, BETTER) == (found.evidence.speedup, found.evidence.adopted, found.try_first)


def test_the_newest_verdict_of_the_key_comes_first(service: Service) -> None:
    """Several jobs keep the default: no window of theirs, and no neighbour's adoption, takes its place."""
    study = study_of(service)
    for job_id in ("far-1", "far-2"):
        measure(service, study_of(service, replace(KEY, layout=(4,))), job_id, OTHER, 60.0)
    for job_id in ("job-1", "job-2"):
        measure(service, study, job_id, BETTER, 110.0)
    look(service, study, "job-3", OTHER, 50.0)

    found = service.recommendations.find(QUERY)

    assert ("exact", DEFAULT, False) == answer(found)
    assert ("default", 2, OTHER) == (found.standing, found.evidence.jobs, found.try_first)
    assert "keeps the default (2 jobs keep the default)" in str(found.reason)
    assert found.evidence.trials > 0


def test_of_two_trusted_jobs_the_newer_verdict_is_right(service: Service) -> None:
    """Adopted, then kept: the default, whether the job said so or its paired test shows it; adopted again: a prior."""
    study = study_of(service)
    measure(service, study, "job-1", BETTER, 80.0)
    service.jobs.put(study.study_id, "job-2", JobReport("keeping_default"))
    kept = service.recommendations.find(QUERY)

    measure(service, study, "job-3", BETTER, 80.0)
    confirmed = service.recommendations.find(QUERY)

    assert (("exact", DEFAULT, False), BETTER) == (answer(kept), kept.try_first)
    assert ("exact", BETTER, False) == answer(confirmed)


def test_any_machine_is_one_that_matches_and_is_named(service: Service) -> None:
    """Without a machine in the query the newest verdict answers for its own; one that is confirmed goes before it."""
    study, other = study_of(service), study_of(service, replace(KEY, hardware="d" * 64))
    measure(service, study, "job-1", BETTER, 110.0)
    service.jobs.put(study.study_id, "job-1", JobReport("keeping_default", hardware_name="Rack 7"))
    any_machine = replace(QUERY, hardware=None)
    kept = service.recommendations.find(any_machine)

    measure(service, other, "job-2", OTHER, 80.0)
    prior = service.recommendations.find(any_machine)
    service.jobs.put(study.study_id, "job-3", JobReport("keeping_default"))
    newer = service.recommendations.find(any_machine)
    measure(service, other, "job-4", OTHER, 80.0)
    service.jobs.put(study.study_id, "job-5", JobReport("keeping_default"))
    confirmed = service.recommendations.find(any_machine)

    assert ["default", "prior", "default", "confirmed"] == [found.standing for found in (kept, prior, newer, confirmed)]
    assert str(kept.reason).endswith("measured on Rack 7")
    assert "measured on machine dddddddddd; 1 other machine measured it, too" in str(prior.reason)
    assert (rest_key(study.key), rest_key(other.key)) == (newer.key, confirmed.key)


def test_a_neighbour_gives_its_adopted_config_alone(service: Service) -> None:
    """Windows of a neighbour seed a search; a neighbour whose newest verdict keeps the default gives no config."""
    near, far = (study_of(service, replace(KEY, layout=(ranks,))) for ranks in (4, 8))
    look(service, near, "job-1", BETTER, 60.0)
    seeded = service.recommendations.find(QUERY)

    measure(service, far, "job-2", OTHER, 80.0)
    adopted = service.recommendations.find(QUERY)
    service.jobs.put(far.study_id, "job-3", JobReport("keeping_default"))
    kept = service.recommendations.find(QUERY)

    assert (("default", DEFAULT, False), BETTER) == (answer(seeded), seeded.try_first)
    assert ("nearest", OTHER, True) == answer(adopted)
    assert ("default", DEFAULT, False) == answer(kept)
