# SPDX-License-Identifier: Apache-2.0
"""Leases on both databases: one job at a time, by the database's clock."""

import itertools
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.asked_space import AskedSpace
from ringtune.service.domain.design_tasks import DesignTasks
from ringtune.service.domain.designing import Designing
from ringtune.service.domain.study_cache import StudyCache
from ringtune.service.domain.suggestions import HeldLease, filling_config
from ringtune.service.errors import InvalidRequest, LeaseLost, StudyNotFound, TrialConflict, TrialNotFound
from ringtune.service.store import Database
from ringtune.tuner import search_space
from tests.integration.service_store.leases import end_lease
from tests.unit.service.domain.reported import BETTER, DEFAULT, measure, new_id, result, study_of, tell
from tests.waiting import wait_until

DESIGN_LIMIT_S = 60.0


def test_the_same_trial_gets_the_same_config(service: Service) -> None:
    """A lost answer costs no config: asking again returns the same one, under the same token."""
    study_id, trial_id = study_of(service).study_id, new_id()

    first = service.suggestions.ask(study_id, trial_id, "job-1", 60.0)
    again = service.suggestions.ask(study_id, trial_id, "job-1", 60.0)

    assert (first.config, first.fencing_token, True) == (again.config, again.fencing_token, first.is_new)
    assert not again.is_new


def test_jobs_that_ask_at_once_get_different_configs(service: Service) -> None:
    """No config is leased twice, and no trial to two jobs."""
    study_id = study_of(service).study_id
    contested = new_id()

    with ThreadPoolExecutor(12) as pool:
        leased = list(pool.map(lambda n: service.suggestions.ask(study_id, new_id(), f"job-{n}", 60.0), range(40)))

    assert 40 == len({suggestion.config for suggestion in leased})
    service.suggestions.ask(study_id, contested, "job-1", 60.0)
    with pytest.raises(TrialConflict, match="job-1"):
        service.suggestions.ask(study_id, contested, "job-2", 60.0)


def test_a_config_whose_lease_ended_goes_to_another_job(service: Service, database: Database) -> None:
    """Expired or released, it is the next to be given; the first job gets an error for its lost lease."""
    study_id = study_of(service).study_id
    first, second = (service.suggestions.ask(study_id, new_id(), "job-1", 60.0) for _ in range(2))
    end_lease(database, first.trial_id)
    service.suggestions.release(HeldLease(study_id, second.trial_id, "job-1", second.fencing_token))
    service.suggestions.release(HeldLease(study_id, second.trial_id, "job-1", second.fencing_token))

    given = {service.suggestions.ask(study_id, new_id(), "job-2", 60.0).config for _ in range(2)}

    assert {first.config, second.config} == given
    for lost in (first, second):
        with pytest.raises(LeaseLost):
            service.suggestions.renew(HeldLease(study_id, lost.trial_id, "job-1", lost.fencing_token), 60.0)
        with pytest.raises(LeaseLost):
            service.suggestions.ask(study_id, lost.trial_id, "job-1", 60.0)


def test_a_job_that_comes_back_in_time_gets_a_new_token(service: Service, database: Database) -> None:
    """After expiry, with the config still free, the lease is new: the old token has no effect."""
    study_id = study_of(service).study_id
    first = service.suggestions.ask(study_id, new_id(), "job-1", 60.0)
    end_lease(database, first.trial_id)
    with pytest.raises(LeaseLost, match="ended"):
        service.suggestions.renew(HeldLease(study_id, first.trial_id, "job-1", first.fencing_token), 60.0)

    again = service.suggestions.ask(study_id, first.trial_id, "job-1", 60.0)

    assert (first.config, first.fencing_token + 1) == (again.config, again.fencing_token)
    with pytest.raises(LeaseLost, match="token 1"):
        service.suggestions.renew(HeldLease(study_id, first.trial_id, "job-1", first.fencing_token), 60.0)
    assert 90.0 == service.suggestions.renew(HeldLease(study_id, first.trial_id, "job-1", 2), 90.0).expires_in_s
    assert "late" == tell(service, study_id, first.trial_id, result("job-1", BETTER, fencing_token=1)).status


def test_a_trial_with_a_result_is_over(service: Service) -> None:
    """A trial with a result is neither suggested again nor released, even if it was reported without a lease."""
    study_id, unleased = study_of(service).study_id, new_id()
    suggestion = service.suggestions.ask(study_id, new_id(), "job-1", 60.0)
    tell(service, study_id, suggestion.trial_id, result("job-1", suggestion.config))
    tell(service, study_id, unleased, result("job-1", suggestion.config))

    for trial_id in (suggestion.trial_id, unleased):
        with pytest.raises(TrialConflict, match="result"):
            service.suggestions.ask(study_id, trial_id, "job-1", 60.0)
    with pytest.raises(LeaseLost, match="result"):
        service.suggestions.release(HeldLease(study_id, suggestion.trial_id, "job-1", 1))
    with pytest.raises(TrialNotFound):
        service.suggestions.renew(HeldLease(study_id, new_id(), "job-1", 1), 60.0)
    with pytest.raises(InvalidRequest, match="lease_s"):
        service.suggestions.ask(study_id, new_id(), "job-1", float("nan"))


def test_a_study_that_another_process_deleted_is_not_found(service: Service, database: Database, url: str) -> None:
    """A deleted study does not exist for callers or the designer, even if this process remembers it."""
    study_id = study_of(service).study_id
    service.suggestions.ask(study_id, new_id(), "job-1", 60.0)
    cache = StudyCache(database)
    problems, space = DesignTasks(database, cache, ServiceLimits()), AskedSpace.of(cache.get(study_id))
    assert problems.task_of(space) is not None
    elsewhere = Service(Database.open(url), policy=ServiceLimits(design_workers=0))
    elsewhere.studies.delete(study_id)
    elsewhere.close()

    for _ in range(2):
        with pytest.raises(StudyNotFound):
            service.suggestions.ask(study_id, new_id(), "job-1", 60.0)
    with pytest.raises(StudyNotFound):
        problems.keep(space, [DEFAULT])


def test_one_study_does_not_end_the_thread_that_designs() -> None:
    """The next study is designed for, whatever error the problem of one raises."""
    designed: list[str] = []

    def task_of(wanted: AskedSpace) -> None:
        designed.append(wanted.study_id)
        if wanted.study_id == "odd":
            raise ZeroDivisionError

    designing = Designing(1, 1.0, task_of, lambda _asked, _configs: None)
    designing.start()
    for study_id in ("odd", "next"):
        designing.want(AskedSpace(study_id, "", search_space({}, DEFAULT)))
        wait_until(lambda: study_id in designed)  # noqa: B023  (called at once)
    designing.close()

    assert ["odd", "next"] == designed


def test_without_a_designer_configs_fill_the_space(service: Service) -> None:
    """The default first, then configs that differ, all legal, decided by the study alone."""
    study = study_of(service)
    space = search_space({}, DEFAULT)

    leased = [service.suggestions.ask(study.study_id, new_id(), "job-1", 60.0) for _ in range(8)]

    seed = int(study.study_id[:8], 16)
    assert [filling_config(space, seed, index) for index in range(8)] == [item.config for item in leased]
    assert DEFAULT == leased[0].config
    assert all(space.contains(item.config) for item in leased)
    many = [filling_config(space, seed, index) for index in itertools.chain(range(70), range(200, 210))]
    assert len(many) == len(set(many))


@pytest.mark.long
def test_a_designer_in_its_own_process_fills_the_queue(template: Callable[[str], str]) -> None:
    """Suggestions come from the designer once it has computed some; a killed process is replaced, and all end."""
    database = Database.open(template("sqlite"))
    service = Service(database, policy=ServiceLimits(queued_suggestions=2))
    service.start()
    study = study_of(service)
    measure(service, study, "job-1", BETTER, 80.0)

    assert "spread" == service.suggestions.ask(study.study_id, new_id(), "job-1", 60.0).designer
    wait_until(lambda: service.load().queued_suggestions == 2)
    killed = service.process_ids()
    os.kill(killed[0], signal.SIGKILL)
    leased = [service.suggestions.ask(study.study_id, new_id(), "job-1", 60.0) for _ in range(2)]
    wait_until(lambda: service.load().queued_suggestions == 2)

    space = search_space({}, DEFAULT)
    assert ["gp", "gp"] == [item.designer for item in leased]
    assert 2 == len({item.config for item in leased})
    assert all(space.contains(item.config) for item in leased)
    replaced = service.process_ids()
    assert 1 == len(replaced)
    assert killed != replaced
    service.close()
    with pytest.raises(ProcessLookupError):
        os.kill(replaced[0], 0)


@pytest.mark.long
def test_a_task_whose_process_is_killed_goes_to_the_next_one(template: Callable[[str], str]) -> None:
    """The process dies with a task in its pipe: the queue is filled all the same, without another ask."""
    service = Service(Database.open(template("sqlite")), policy=ServiceLimits(queued_suggestions=1))
    service.start()
    study = study_of(service)
    measure(service, study, "job-1", BETTER, 80.0)
    service.suggestions.ask(study.study_id, new_id(), "job-1", 60.0)
    wait_until(lambda: service.load().queued_suggestions == 1)
    (stopped,) = service.process_ids()

    os.kill(stopped, signal.SIGSTOP)
    suggestion = service.suggestions.ask(study.study_id, new_id(), "job-1", 60.0)
    time.sleep(0.3)  # for the task to be in the pipe; a process that died before it is replaced as well
    os.kill(stopped, signal.SIGKILL)
    wait_until(lambda: service.load().queued_suggestions == 1)

    assert "gp" == suggestion.designer
    assert (stopped,) != service.process_ids()
    service.close()
