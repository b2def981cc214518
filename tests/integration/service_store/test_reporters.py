# SPDX-License-Identifier: Apache-2.0
"""Independence is by token, on both databases: invented job ids, foreign job ids, slander, ties, declared tokens."""

from dataclasses import replace

import pytest

from ringtune.service.domain import Service, verdicts
from ringtune.service.domain.jobs import JobReport
from ringtune.service.domain.overview import Overview
from ringtune.service.domain.suggestions import HeldLease
from ringtune.service.errors import JobConflict, TokenNotFound
from ringtune.service.store import Database, reports
from ringtune.shared_service.rest_models import Recommendation
from ringtune.tuner import Config, Phase, StepTimes
from tests.integration.service_store.run_logs import log_of
from tests.unit.service.domain.reported import (
    BETTER,
    OTHER,
    QUERY,
    adopt,
    new_id,
    paired,
    result,
    study_of,
    tell,
)

HONEST, SECOND, ATTACKER = "a" * 16, "b" * 16, "e" * 16


def found(service: Service) -> Recommendation:
    """Return the recommendation for a job of the key."""
    return service.recommendations.find(QUERY)


@pytest.mark.parametrize("honest_jobs", [1, 2, 10])
def test_job_ids_of_one_token_never_outvote_another_token(service: Service, honest_jobs: int) -> None:
    """However many are invented, and however much they claim: the config that came first stays, and is a prior."""
    study = study_of(service)
    for _ in range(honest_jobs):
        adopt(service, study, HONEST, BETTER, 0.1)
    for _ in range(4):
        adopt(service, study, ATTACKER, OTHER, 3.9)

    answer = found(service)

    assert (BETTER, "prior", None) == (answer.config, answer.standing, answer.evidence.speedup)


def test_two_tokens_confirm_whatever_a_minority_claims(service: Service) -> None:
    """The smaller gain that two tokens adopted beats the larger one of a third."""
    study = study_of(service)
    adopt(service, study, ATTACKER, OTHER, 3.9)
    for token_id in (HONEST, SECOND):
        adopt(service, study, token_id, BETTER, 0.1)

    answer = found(service)

    assert (BETTER, "confirmed") == (answer.config, answer.standing)
    assert (2, 0) == (answer.evidence.adopted, answer.evidence.trusted_jobs)
    assert 0.1 == pytest.approx(answer.evidence.speedup, abs=1e-4)


def test_a_tie_of_two_against_two_leaves_two_priors(service: Service) -> None:
    """The one that was recommended earlier stays, whatever the later one claims."""
    study = study_of(service)
    for config, speedup, first in ((BETTER, 0.1, HONEST), (OTHER, 3.9, ATTACKER)):
        for number in range(2):
            adopt(service, study, f"{first[:-1]}{number}", config, speedup)

    answer = found(service)

    assert (BETTER, "prior", 2) == (answer.config, answer.standing, answer.evidence.adopted)


@pytest.mark.parametrize("slander", ["none", "before", "after"])
@pytest.mark.parametrize(("honest", "others"), [(1, 1), (2, 2), (3, 3), (3, 2), (2, 1)])
def test_a_token_that_adopts_a_rival_has_one_vote(service: Service, honest: int, others: int, slander: str) -> None:
    """Tokens adopt another config and report that the first one is slow: a tie stays one, a minority is outvoted."""
    study = study_of(service)
    attackers = [f"{ATTACKER[:-1]}{number}" for number in range(others)]
    for number in range(honest):
        adopt(service, study, f"{HONEST[:-1]}{number}", BETTER, 0.1)
    for step in ("before", "adoption", "after"):
        for token_id in attackers if step in {"adoption", slander} else ():
            adopt(service, study, token_id, *((OTHER, 3.9) if step == "adoption" else (BETTER, -0.5)))

    answer = found(service)

    standing = "confirmed" if honest > others else "prior"
    assert (BETTER, standing, honest) == (answer.config, answer.standing, answer.evidence.adopted)


def test_windows_do_not_oppose_paired_tests(service: Service) -> None:
    """Two tokens tested a config; others whose windows are slower have not tested it."""
    study = study_of(service)
    for token_id in (HONEST, SECOND):
        adopt(service, study, token_id, BETTER, 0.1)
    for number in range(3):
        job_id = new_id()
        baseline = result(job_id, phase=Phase.BASELINE)
        reports = (baseline, result(job_id, BETTER, 250.0), baseline)
        for item in reports:
            tell(service, study.study_id, new_id(), replace(item, token_id=f"{ATTACKER[:-1]}{number}"))

    answer = found(service)

    assert (BETTER, "confirmed", 0) == (answer.config, answer.standing, answer.evidence.opposed)


def test_a_tokens_newest_verdict_takes_the_place_of_its_earlier_ones(service: Service) -> None:
    """A token that adopted a config and then kept the default keeps the default."""
    study = study_of(service)
    adopt(service, study, HONEST, BETTER, 0.1)
    job_id = adopt(service, study, HONEST, OTHER, -0.1)
    service.jobs.put(study.study_id, job_id, JobReport("keeping_default"), HONEST)

    answer = found(service)

    assert ("exact", "default", BETTER) == (answer.source, answer.standing, answer.try_first)


def test_slander_counts_by_token(service: Service) -> None:
    """One token says that a good config is slow: a tie with one, outvoted by two, whatever the number of its jobs."""
    study = study_of(service)
    adopt(service, study, HONEST, BETTER, 0.1)
    for _ in range(5):
        adopt(service, study, ATTACKER, BETTER, -0.5)
    tie = found(service)

    adopt(service, study, SECOND, BETTER, 0.1)
    outvoted = found(service)

    assert (BETTER, "prior") == (tie.config, tie.standing)
    assert (BETTER, "confirmed", 1) == (outvoted.config, outvoted.standing, outvoted.evidence.opposed)
    assert 0.1 == pytest.approx(outvoted.evidence.speedup, abs=1e-4)


def test_one_token_improves_on_its_own_config(service: Service) -> None:
    """A token's own bounds compare its configs: the better of two that it adopted is recommended."""
    study = study_of(service)
    adopt(service, study, HONEST, BETTER, 0.1)
    adopt(service, study, HONEST, OTHER, 0.3)

    assert (OTHER, "prior") == (found(service).config, found(service).standing)


def test_tested_configs_come_before_promising_windows(service: Service) -> None:
    """However many untested configs a job has that look faster, each beside the baseline's windows."""
    study, job_id = study_of(service), new_id()
    untested = [Config({**OTHER, "cycle_ms": 2.0 + number}) for number in range(3)]
    reports = [result(job_id, phase=Phase.BASELINE), *(result(job_id, config, 50.0) for config in untested)]
    for item in [*reports, result(job_id, phase=Phase.BASELINE)]:
        tell(service, study.study_id, new_id(), replace(item, token_id=HONEST))
    before = found(service)

    adopt(service, study, SECOND, BETTER, 0.1)

    assert before.try_first in untested
    assert (BETTER, "prior") == (found(service).config, found(service).standing)


def test_a_declared_token_stands_for_many_jobs(service: Service) -> None:
    """Off by default; then its jobs count one by one, and the evidence says so."""
    plain, _ = service.tokens.create("user", ["report"])
    team, _ = service.tokens.create("team", ["report"], has_many_jobs=True)
    study = study_of(service)
    for _ in range(2):
        adopt(service, study, plain.token_id, BETTER, 0.1)
    before = found(service)

    service.token_results.delete(plain.token_id)
    for _ in range(2):
        adopt(service, study, team.token_id, BETTER, 0.1)
    after = found(service)

    assert ("prior", 1, 0) == (before.standing, before.evidence.reporters, before.evidence.trusted_jobs)
    assert ("confirmed", 2, 2) == (after.standing, after.evidence.reporters, after.evidence.trusted_jobs)
    assert "count one by one" in str(after.reason)


def test_a_token_is_declared_later_and_the_declaration_taken_back(service: Service) -> None:
    """The results of a token that is declared later count anew at once, and the verdict with them."""
    user, _ = service.tokens.create("user", ["report"])
    study = study_of(service)
    for _ in range(2):
        adopt(service, study, user.token_id, BETTER, 0.1)

    standings = []
    for has_many_jobs in (True, False):
        declared = service.token_results.declare(user.token_id, has_many_jobs=has_many_jobs)
        standings.append((declared.has_many_jobs, found(service).standing, found(service).evidence.reporters))

    assert [(True, "confirmed", 2), (False, "prior", 1)] == standings
    assert [False] == [token.has_many_jobs for token in service.tokens.list()]
    with pytest.raises(TokenNotFound):
        service.token_results.declare(ATTACKER, has_many_jobs=True)


def test_verdicts_are_told_with_every_reporters_word(service: Service, database: Database) -> None:
    """One reading has the jobs, and of each config its adopters and those that kept the default, by name."""
    team, _ = service.tokens.create("team", ["report"], has_many_jobs=True)
    user, _ = service.tokens.create("user", ["report"])
    study = study_of(service)
    named = adopt(service, study, team.token_id, BETTER, 0.1)
    service.jobs.put(study.study_id, named, JobReport(name="night run"), team.token_id)
    adopt(service, study, user.token_id, BETTER, -0.2)
    open_job = adopt(service, study, None, BETTER, 0.3)

    shown = Overview(database).study(study.study_id)

    (config,) = (item for item in shown.configs if item.config == BETTER)
    stands = {(stand.name, stand.token_id, stand.job_id, stand.stand, stand.tests) for stand in config.stands}
    assert {
        ("night run", team.token_id, named, "adopted", 1),
        ("user", user.token_id, None, "kept", 1),
        (open_job, None, open_job, "adopted", 1),
    } == stands
    assert (3, 2) == (config.evidence.reporters, config.evidence.adopted)
    assert 3 == len(shown.jobs)


def test_reporters_beyond_those_that_are_read_are_counted(
    service: Service, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study has more stands than are read for a page: the number of reporters of a config is that of all."""
    study = study_of(service)
    for _ in range(3):
        adopt(service, study, None, BETTER, 0.1)
    monkeypatch.setattr(verdicts, "MAX_STANDS", 2)

    (config,) = (item for item in Overview(database).study(study.study_id).configs if item.config == BETTER)

    assert (2, 3) == (len(config.stands), config.telling)


def test_a_job_id_belongs_to_the_token_that_used_it_first(service: Service, database: Database) -> None:
    """For results, baselines, leases, whole logs and a job's facts; each row keeps its token."""
    study = study_of(service)
    job_id = adopt(service, study, HONEST, BETTER, 0.1)
    lease = service.suggestions.ask(study.study_id, new_id(), job_id, 60.0, token_id=HONEST)
    held = HeldLease(study.study_id, lease.trial_id, job_id, lease.fencing_token, ATTACKER)
    slander = replace(result(job_id, BETTER, 250.0, adoption=paired(-0.6)), token_id=ATTACKER)
    attempts = (
        lambda: tell(service, study.study_id, new_id(), slander),
        lambda: tell(service, study.study_id, new_id(), replace(slander, phase=Phase.BASELINE, adoption=None)),
        lambda: service.suggestions.ask(study.study_id, new_id(), job_id, 60.0, token_id=ATTACKER),
        lambda: service.suggestions.renew(held, 60.0),
        lambda: service.suggestions.release(held),
        lambda: service.ledger.take_run(log_of("run-1"), job_id, ATTACKER),
        lambda: service.jobs.put(study.study_id, job_id, JobReport(), ATTACKER),
    )

    for attempt in attempts:
        with pytest.raises(JobConflict, match=job_id):
            attempt()
    (in_batch,) = service.ledger.tell_batch(study.study_id, [(new_id(), slander)])

    assert ("conflict", 409, "job_conflict") == (in_batch.status, JobConflict.status, JobConflict.code)
    assert 60.0 == service.suggestions.renew(replace(held, token_id=HONEST), 60.0).expires_in_s
    with database.reading() as connection:
        assert {HONEST} == {row.token_id for row in reports.of_study(connection, study.study_id)}


def test_an_operator_deletes_the_reports_of_a_token(service: Service) -> None:
    """The token's results and logs go in all studies; those of others stay, and the verdicts follow."""
    study = study_of(service)
    adopt(service, study, ATTACKER, OTHER, 3.9)
    adopt(service, study, HONEST, BETTER, 0.1)
    assert OTHER == found(service).config

    assert 2 == service.token_results.delete(ATTACKER)

    assert (BETTER, 1) == (found(service).config, found(service).evidence.reporters)
    assert 0 == service.token_results.delete(ATTACKER)


def test_a_run_belongs_to_the_token_that_pushed_it_first(service: Service) -> None:
    """A run's id is its job's, too: another token that knows it cannot store a log under it."""
    service.ledger.take_run(log_of("run-1"), None, HONEST)

    with pytest.raises(JobConflict, match="run-1"):
        service.ledger.take_run([{**log_of("run-1")[0], "seed": 7}], new_id(), ATTACKER)


def test_an_archive_keeps_the_reporters(service: Service) -> None:
    """The token's id, never a secret; after the way back the same tokens confirm, and own their jobs."""
    study = study_of(service)
    job_id = adopt(service, study, HONEST, BETTER, 0.1)
    adopt(service, study, SECOND, BETTER, 0.1)
    lines = list(service.archive.export())
    service.studies.delete(study.study_id)

    service.archive.take(lines)

    assert ("confirmed", 2) == (found(service).standing, found(service).evidence.adopted)
    with pytest.raises(JobConflict):
        tell(service, study_of(service).study_id, new_id(), replace(result(job_id), token_id=ATTACKER))


@pytest.mark.parametrize("factor", [2.0, 4.0])
@pytest.mark.parametrize("begins_at", range(1, 8))
def test_a_slow_down_in_the_search_makes_no_recommendation(service: Service, factor: float, begins_at: int) -> None:
    """Configs without an effect are not recommended, wherever a slow-down begins and however large it is."""
    study, job_id = study_of(service), new_id()
    configs = [None, BETTER, BETTER, None, OTHER, OTHER, None, BETTER, None]
    for number, config in enumerate(configs):
        step_ms = 100.0 * (factor if number >= begins_at else 1.0)
        window = result(job_id, phase=Phase.BASELINE) if config is None else result(job_id, config)
        tell(service, study.study_id, new_id(), replace(window, step_ms=StepTimes(step_ms, 1.0, step_ms)))

    answer = found(service)

    assert ("default", None) == (answer.source, answer.evidence.speedup)
