# SPDX-License-Identifier: Apache-2.0
"""Jobs and commands against the real service: a job starts from earlier results, and none is counted twice."""

import json
import math
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringtune.client import ExchangeLimits, ServiceClient, ServiceRefusedError, ServiceUnavailableError
from ringtune.tuner import Config, JobLabels, RunSettings, open_log
from ringtune.tuner.logs.records import AdoptionRecord, SampleRecord, SuggestionRecord, record_to_json
from ringtune.tuner.testing import engine_like_surface, poor_baseline
from ringtune.tuning.service_link import breaker, delivery, report_sender
from ringtune.tuning.service_link.results import study_of
from tests.integration.service_link.commands import ringtune
from tests.integration.service_link.deliveries import spooled, trial_ids
from tests.integration.service_link.jobs import (
    KEY,
    Notes,
    Outcome,
    connect,
    run_job,
    run_record,
    run_settings,
    tuned_records,
)
from tests.integration.service_link.real_service import RealService
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("patient")

LARGE = ExchangeLimits(60.0, 8 << 20)
WINDOWS_PER_KILL = 40
TIMES = {"median": 80.0, "mad": 1.0, "mean": 81.0}
MEASURED = {"score_bytes_per_s": 1e8, "step_ms": TIMES, "steps": 10, "valid": True, "reason": None}
SAMPLE = SampleRecord(
    0.0, "", 1, 0, "search", 1, poor_baseline().to_json(), 1e8, TIMES, steps=10, valid=True, reason=None
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealService]:
    """A service that has no token, and so is open; tests use models of their own."""
    running = RealService(tmp_path_factory.mktemp("service"))
    running.start()
    yield running
    running.kill()


def settings_for(model: str, layout: int = 2, **changes: Any) -> RunSettings:
    """Return the settings of a job whose model's fingerprint is made of one hex digit."""
    key = {**KEY, "model": model * 64, "layout": [layout]}
    return run_settings(key=key, layout={"ranks_per_host": [layout]}, model_name=f"model {model}", **changes)


def stored_trials(client: ServiceClient, study_id: str) -> list[str]:
    """Return the trials of a study's results, as the archive has them."""
    lines = [json.loads(line) for line in client.export()]
    return [line["trial_id"] for line in lines if line.get("study_id") == study_id and "body_digest" in line]


def first_suggestion(job: Outcome) -> SuggestionRecord:
    """Return the config that a job tried first."""
    return next(record for record in job.records if isinstance(record, SuggestionRecord))


@pytest.mark.parametrize("layout", [2, 4], ids=["same key", "another layout"])
def test_a_second_job_starts_with_what_the_first_found(layout: int, service: RealService, tmp_path: Path) -> None:
    """The first sample is within 2 % of the best that was found, and counts as any other."""
    notes, model = Notes(), str(layout)
    first = run_job(connect(service.url, tmp_path, notes), notes, settings_for(model, max_samples=10))
    assert first.result.adopted

    second = run_job(connect(service.url, tmp_path, notes), notes, settings_for(model, layout, seed=2))

    tried = first_suggestion(second)
    assert "service" == tried.designer
    assert second.result.adopted
    loss = engine_like_surface(Config(tried.config)) - engine_like_surface(first.result.config)
    assert math.expm1(loss) < 0.02
    assert [] == notes.warnings


def test_the_service_knows_what_became_of_a_job(service: RealService, tmp_path: Path) -> None:
    """The service has the job's name and its decision or early end; a job that was killed reports no end."""
    labels = JobLabels("first try", ("nightly",), "9fceb02", "Rack 7", ({"hosts": 1, "cpu_model": "EPYC", "cores": 8},))
    decided = run_job(connect(service.url, tmp_path, Notes()), Notes(), settings_for("e", labels=labels))
    run_job(connect(service.url, tmp_path, Notes()), Notes(), settings_for("e", seed=3), windows=4)
    killed = connect(service.url, tmp_path, Notes())
    log = killed.report_log()
    log.write(replace(run_record(), run_id="2" * 32, key={**KEY, "model": "e" * 64}))
    log.write(replace(SAMPLE, run_id="2" * 32, window=0))
    client = ServiceClient(service.url)
    study = next(item for item in client.studies().items if item.key.model == "e" * 64)
    wait_until(lambda: len(jobs_at(service, study.id)) == 3)

    jobs = jobs_at(service, study.id)

    verdict = next(record.verdict for record in decided.records if isinstance(record, AdoptionRecord))
    verdicts = {job["state"]: job["verdict"] for job in jobs}
    assert {"adopted", "ended_early", "running"} == set(verdicts)
    assert (verdict, None) == (verdicts["adopted"], verdicts["running"])
    assert verdicts["ended_early"].startswith("unfinished: the job ended in the warmup phase of tuning, after ")
    named = next(job for job in jobs if job["state"] == "adopted")
    assert ("first try", ["nightly"], "9fceb02") == (named["name"], named["tags"], named["commit"])
    assert "Rack 7" == client.study(study.id).hardware_name
    killed.close()


def jobs_at(service: RealService, study_id: str) -> list[dict[str, Any]]:
    """Return the jobs of a study, as the API lists them."""
    jobs: list[dict[str, Any]] = httpx.get(f"{service.url}/v1/studies/{study_id}/jobs").json()["items"]
    return jobs


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def test_a_service_that_is_killed_has_each_result_once(
    kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while a job reports, started again on its data: the job delivers the rest, and the archive has all."""
    monkeypatch.setattr(report_sender, "LINGER_S", 0.0)
    monkeypatch.setattr(delivery, "BATCH", 2)
    monkeypatch.setattr(breaker, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(breaker, "LONGEST_PAUSE_S", 0.1)
    rng = random.Random(kills)
    notes, service = Notes(), RealService(tmp_path)
    service.start()
    link = connect(service.url, tmp_path, notes)
    log = link.report_log()
    log.write(run_record())
    windows = [replace(SAMPLE, run_id=run_record().run_id, window=window) for window in range(WINDOWS_PER_KILL * kills)]
    for start in range(0, len(windows), WINDOWS_PER_KILL):
        for window in windows[start : start + WINDOWS_PER_KILL]:
            log.write(window)
        time.sleep(0.1 * rng.random())
        service.kill()
        service.start()
    wait_until(lambda: not spooled(tmp_path, service.url))
    link.close()

    client = ServiceClient(service.url, limits=LARGE)
    (study,) = client.studies().items
    stored = stored_trials(client, study.id)
    service.kill()
    assert sorted(trial_ids(windows)) == sorted(stored)


def test_a_log_that_is_pushed_after_its_job_adds_nothing(
    service: RealService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that is pushed twice adds no result either; a new one adds all."""
    monkeypatch.setenv("AUTOTUNE_SERVICE_URL", service.url)
    reported = run_job(connect(service.url, tmp_path, Notes()), Notes(), settings_for("5"))
    other = replace(run_record(), key={**KEY, "model": "6" * 64})
    write_log(tmp_path / "reported.jsonl", reported.records)
    write_log(tmp_path / "other.jsonl", [other, *tuned_records()[1:]])

    codes = [ringtune("push", str(tmp_path / name)) for name in ("reported.jsonl", "other.jsonl", "other.jsonl")]

    lines = capsys.readouterr().out.splitlines()
    counts = [len(trial_ids(reported.records)), len(trial_ids(tuned_records()))]
    assert [0, 0, 0] == codes
    assert f"0 new results, {counts[0]} there before, 0 kept and not used" in lines[0]
    assert f"{counts[1]} new results, 0 there before, 0 kept and not used" in lines[1]
    assert f"0 new results, {counts[1]} there before, 0 kept and not used" in lines[2]


def write_log(path: Path, records: Any) -> None:
    """Write records as the tuning log has them."""
    log = open_log(path)
    for record in records:
        log.write(record)
    log.close()


def test_the_command_answers_what_the_call_answers(
    service: RealService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command finds a model by name and by fingerprint, as the call does."""
    run_job(connect(service.url, tmp_path, Notes()), Notes(), settings_for("7"))
    client = ServiceClient(service.url)
    called = client.recommendation(
        model_fingerprint="7" * 64, hardware=KEY["hardware"], world_size=2, local_size=2, target="ringtune"
    )
    assert "exact" == called.source

    for model in ("7" * 64, "model 7"):
        options = ["--model", model, "--world-size", "2", "--hardware", KEY["hardware"], "--format", "json"]
        assert 0 == ringtune("recommend", *options, "--service-url", service.url)
        printed = json.loads(capsys.readouterr().out)

        assert called.config == printed["config"]
        assert called.source == printed["source"]
        assert called.evidence.ci_low == printed["evidence"]["ci_low"]


def test_every_call_of_a_job(service: RealService) -> None:
    """Ask, renew, tell and release, and the service's refusals."""
    client = ServiceClient(service.url)
    study = client.find_or_create_study({**study_body(), "model_name": "calls"})
    assert study == client.study(study.id).model_copy(update={"age_s": study.age_s})
    assert study.id in [item.id for item in client.studies(model="calls", limit=5).items]
    job, trial, other = (str(uuid.uuid4()) for _ in range(3))

    suggestion = client.ask(study.id, trial, job, lease_s=60.0)
    renewed = client.renew(study.id, suggestion, job, lease_s=120.0)

    assert suggestion.config == client.ask(study.id, trial, job).config == renewed.config
    assert renewed.lease.expires_in_s > suggestion.lease.expires_in_s
    body = {**MEASURED, "config": run_record().baseline, "job_id": job}
    assert "new" == client.tell(study.id, other, body).status
    assert "same" == client.tell(study.id, other, body).status
    with pytest.raises(ServiceRefusedError) as conflict:
        client.tell(study.id, other, {**body, "steps": 11})
    assert (409, "result_conflict") == (conflict.value.status, conflict.value.code)
    client.release(study.id, renewed, job)
    with pytest.raises(ServiceRefusedError, match="lease"):
        client.renew(study.id, renewed, job)
    client.delete_study(study.id)
    with pytest.raises(ServiceRefusedError) as missing:
        client.study(study.id)
    assert (404, "study_not_found") == (missing.value.status, missing.value.code)


def study_body() -> dict[str, Any]:
    """Return a study that no other test uses."""
    return {**study_of(run_record()), "key": {**KEY, "model": "9" * 64}}


def is_refused(client: ServiceClient) -> bool:
    """Return whether a service wants a token, which it notices some seconds after the first was made."""
    try:
        client.studies()
    except ServiceRefusedError as error:
        return error.status == 401
    return False


def test_the_operator_s_calls(tmp_path: Path) -> None:
    """Everything is exported and imported elsewhere; a token is made, needed and revoked."""
    folders = [tmp_path / "one", tmp_path / "two"]
    services = [RealService(folder) for folder in folders]
    for folder, service in zip(folders, services, strict=True):
        folder.mkdir()
        service.start()
    try:
        first, second = (ServiceClient(service.url, limits=LARGE) for service in services)
        first.push_run([record_to_json(record) for record in tuned_records()], str(uuid.uuid4()))
        archive = list(first.export())
        assert len(trial_ids(tuned_records())) == second.import_lines(archive).results
        assert 0 == second.import_lines(archive).results

        token = first.create_token("ci", ["read", "report", "admin"])
        wait_until(lambda: is_refused(first))
        keyed = ServiceClient(services[0].url, token.secret)
        assert [token.id] == [item.id for item in keyed.tokens().items]
        assert keyed.change_token(token.id, has_many_jobs=True).has_many_jobs
        assert 0 == keyed.delete_results(token.id).results
        keyed.revoke_token(token.id)
    finally:
        for service in services:
            service.kill()
    with pytest.raises(ServiceUnavailableError):
        first.studies()
    assert not first.is_alive()
