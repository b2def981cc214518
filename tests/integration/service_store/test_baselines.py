# SPDX-License-Identifier: Apache-2.0
"""Jobs with different baselines, on both databases: their speed-ups are never one figure."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ringtune.service.domain import Service
from ringtune.service.domain.summary_updates import rebuild
from ringtune.service.domain.values import StudyRecord
from ringtune.service.store import Database, migrate, reports, summaries
from ringtune.tuner import Config, Phase, default_config, search_space, tunable_names
from tests.unit.service.domain.reported import (
    BETTER,
    DEFAULT,
    GRADIENT_BYTES,
    KEY,
    OTHER,
    QUERY,
    look,
    measure,
    new_id,
    paired,
    result,
    study_of,
    tell,
)

POOR = DEFAULT.replace({"fusion_bytes": 64 << 10})
LIMIT = 4.0


def measure_over(
    service: Service,
    study: StudyRecord,
    job_id: str,
    baseline: Config,
    steps_ms: Sequence[float],
    *,
    challenger: Config = BETTER,
) -> None:
    """Report a job's own baseline and another config, in two windows, and the paired test of the two."""
    own, better = steps_ms
    begun = result(job_id, baseline, own, phase=Phase.BASELINE)
    test = result(job_id, challenger, better, phase=Phase.ADOPTION, adoption=paired(own / better - 1.0))
    windows = [begun, result(job_id, challenger, better), begun, result(job_id, challenger, better), begun, test]
    service.ledger.tell_batch(study.study_id, [(new_id(), window) for window in windows])


def test_a_speedup_over_another_baseline_does_not_confirm_one_over_the_default(service: Service) -> None:
    """Twice as fast as a poor baseline is no second word on a config that one job measured beside the default."""
    study = study_of(service)
    measure(service, study, "job-1", BETTER, 98.0)
    for number in (2, 3):
        measure_over(service, study, f"job-{number}", POOR, (200.0, 98.0))

    found = service.recommendations.find(QUERY)

    assert (BETTER, True) == (found.config, found.is_prior)
    assert (1, 3, None) == (found.evidence.jobs, found.evidence.trials, found.evidence.speedup)
    assert DEFAULT == found.evidence.baseline


@pytest.mark.parametrize("is_hierarchical", [True, False])
def test_the_default_is_that_of_the_studys_layout(service: Service, is_hierarchical: bool) -> None:
    """Between hosts of several ranks a gain over the ring of all ranks is no gain over the default."""
    layout = (2, 2)
    default = default_config(layout)
    space = search_space({}, default, tuned=tunable_names(layout, has_allgathers=False)).to_json()
    key = replace(KEY, layout=layout)
    study = service.studies.find_or_create(key, space_json=space, model_name="resnet50", gradient_bytes=GRADIENT_BYTES)
    baseline = default.replace({"hierarchical_allreduce": is_hierarchical})
    challenger = default.replace({"fusion_bytes": 8 << 20})
    for job_id in ("job-1", "job-2"):
        measure_over(service, study, job_id, baseline, (200.0, 100.0), challenger=challenger)

    found = service.recommendations.find(replace(QUERY, world_size=4, local_size=2))
    elsewhere = service.recommendations.find(replace(QUERY, model="c" * 64, world_size=4, local_size=2))

    assert is_hierarchical != found.is_prior
    assert default == elsewhere.config


def test_a_gain_over_a_poor_baseline_does_not_displace_one_over_the_default(service: Service) -> None:
    """However large the figure, and however many the jobs: it is over something else."""
    study = study_of(service)
    for job_id in ("job-1", "job-2"):
        measure(service, study, job_id, OTHER, 90.0)
    for number in range(3, 7):
        measure_over(service, study, f"job-{number}", POOR, (300.0, 99.0))

    found = service.recommendations.find(QUERY)

    assert (OTHER, False) == (found.config, found.is_prior)


def test_a_prior_over_the_default_comes_before_one_over_another_baseline(service: Service) -> None:
    """A job without settings gets the prior over the default, although its figure is smaller."""
    study = study_of(service)
    measure(service, study, "job-1", OTHER, 97.0)
    measure_over(service, study, "job-2", POOR, (300.0, 99.0))

    assert OTHER == service.recommendations.find(QUERY).config


def test_where_all_began_elsewhere_the_answer_is_a_prior_that_names_its_baseline(service: Service) -> None:
    """Jobs that agree over a baseline of their own: to be tested first by jobs that start from the default."""
    study = study_of(service)
    for job_id in ("job-1", "job-2"):
        measure_over(service, study, job_id, POOR, (200.0, 100.0))

    found = service.recommendations.find(QUERY)

    assert ("exact", BETTER, True, 2) == (found.source, found.config, found.is_prior, found.evidence.jobs)
    assert found.evidence.speedup is None
    assert POOR == found.evidence.baseline
    assert "another baseline" in str(found.reason)


def test_the_largest_group_of_jobs_speaks_where_the_default_is_not_known(service: Service) -> None:
    """Two jobs that share a baseline outvote one, since another engine's defaults are not known here."""
    study = study_of(service, replace(KEY, target="openmpi"))
    for job_id, baseline, own in (("job-1", OTHER, 100.0), ("job-2", OTHER, 101.0), ("job-3", POOR, 300.0)):
        measure_over(service, study, job_id, baseline, (own, 80.0))

    found = service.recommendations.find(replace(QUERY, target="openmpi"))

    assert (BETTER, False, 2) == (found.config, found.is_prior, found.evidence.jobs)
    assert OTHER == found.evidence.baseline


def test_a_job_has_one_baseline(service: Service, database: Database) -> None:
    """The one that it reported first; another is kept as data alone, and the sums are those of the ledger."""
    study = study_of(service)
    measure(service, study, "job-1", BETTER, 80.0)

    stored = tell(service, study.study_id, new_id(), result("job-1", POOR, 300.0, phase=Phase.BASELINE))

    assert "quarantined" == stored.status
    assert stored.reason is not None
    assert "another config" in stored.reason
    measure(service, study, "job-2", BETTER, 80.0)
    assert service.recommendations.find(QUERY).evidence.speedup == pytest.approx(0.25, abs=1e-4)
    with database.writing(reports.LOCK) as connection:
        before = summaries.everything(connection, study.study_id)
        rebuild(connection, [study.study_id], LIMIT)
        assert before == summaries.everything(connection, study.study_id)


def test_paired_tests_over_different_baselines_are_apart(service: Service) -> None:
    """The test of a job that began elsewhere is no evidence on the default."""
    study = study_of(service)
    for number, baseline in ((1, DEFAULT), (2, POOR), (3, DEFAULT)):
        tell(service, study.study_id, new_id(), result(f"job-{number}", baseline, phase=Phase.BASELINE))
        test = paired(0.9 if baseline == POOR else 0.1)
        tell(service, study.study_id, new_id(), result(f"job-{number}", BETTER, 90.0, adoption=test))

    evidence = service.recommendations.find(QUERY).evidence

    assert (2, 2) == (evidence.jobs, evidence.adopted)
    assert 0.1 == pytest.approx(evidence.speedup, abs=1e-4)


def test_a_neighbour_is_read_over_the_baseline_that_its_jobs_had(service: Service) -> None:
    """At another layout too: a prior, with the baseline named."""
    near = study_of(service, replace(KEY, layout=(4,)))
    for job_id in ("job-1", "job-2"):
        measure_over(service, near, job_id, POOR, (200.0, 100.0))

    found = service.recommendations.find(QUERY)

    assert ("nearest", BETTER, True) == (found.source, found.config, found.is_prior)
    assert POOR == found.evidence.baseline


def test_old_summaries_are_derived_again_by_baseline(service: Service, database: Database) -> None:
    """A database of the schema before, in which all baselines were one, answers rightly after it is brought up."""
    study = study_of(service)
    look(service, study, "job-1", BETTER, 98.0)
    tell(service, study.study_id, new_id(), result("job-2", POOR, 200.0, phase=Phase.BASELINE))
    tell(service, study.study_id, new_id(), result("job-2", BETTER, 98.0))
    with database.reading() as connection:
        expected = summaries.everything(connection, study.study_id)

    assert migrate(database, "summaries")
    with database.looking() as connection:
        old = connection.exec_driver_sql("SELECT * FROM config_summaries").mappings().all()
    assert [BETTER["fusion_bytes"]] == [json.loads(row["config"])["fusion_bytes"] for row in old]
    assert service.migrate()

    with database.reading() as connection:
        assert expected == summaries.everything(connection, study.study_id)
