# SPDX-License-Identifier: Apache-2.0
"""Jobs, logs, exports and databases of every version so far: a team upgrades its jobs one by one.

`versions/` has the messages of each version of the engine on one and the same run, recorded from that version: the
bodies of a job's link, the log, and the service's export; and the database of the first version. A version that adds a
knob adds a recording.
"""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.store import Database, reports, summaries
from ringtune.tuner import ENGINE_PARAMETERS, default_config
from tests.contract.service.applications import application

FOLDER = Path(__file__).with_name("versions")
RECORDINGS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
FIRST, TODAY = "seven_knobs", "thirteen_knobs"
EVERY_KNOB = [parameter.name for parameter in ENGINE_PARAMETERS]
JSON_LINES = {"content-type": "application/x-ndjson"}
LEDGER_COLUMNS = ("trial_id", "config", "config_digest", "body_digest", "status", "status_reason", "phase")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A client of an open service."""
    with TestClient(application(tmp_path, has_tokens=False), base_url="http://127.0.0.1") as caller:
        yield caller


def reported(client: TestClient, version: str) -> tuple[str, set[str]]:
    """Report as a version's job does; return the study's id and the statuses."""
    recording = RECORDINGS[version]
    study = client.post("/v1/studies", json=recording["study"])
    assert 200 == study.status_code, study.text
    study_id: str = study.json()["id"]
    stored = client.post(f"/v1/studies/{study_id}/results", json={"results": recording["results"]})
    assert 200 == stored.status_code, stored.text
    facts = {name: value for name, value in recording["facts"].items() if name != "job_id"}
    put = client.put(f"/v1/studies/{study_id}/jobs/{recording['facts']['job_id']}", json=facts)
    assert 200 == put.status_code, put.text
    return study_id, {item["status"] for item in stored.json()["items"]}


def pushed(client: TestClient, version: str) -> dict[str, Any]:
    """Push a version's log and return the outcome of its run."""
    reply = client.post("/v1/runs", json={"records": RECORDINGS[version]["records"]})
    assert 200 == reply.status_code, reply.text
    (run,) = reply.json()["runs"]
    return dict(run)


def test_the_newest_recording_is_of_this_version() -> None:
    """A knob that is added needs a recording, and a migration for rows that are stored without it."""
    assert EVERY_KNOB == RECORDINGS[TODAY]["engine_knobs"]


@pytest.mark.parametrize("versions", [(FIRST, TODAY), (TODAY, FIRST)])
def test_reports_of_one_version_are_the_same_from_another(client: TestClient, versions: tuple[str, str]) -> None:
    """Jobs of several versions have one study, and a result has one text there, whoever reports it."""
    first, second = (reported(client, version) for version in versions)

    assert first[0] == second[0]
    assert ({"new"}, {"same"}) == (first[1], second[1])


@pytest.mark.parametrize("version", RECORDINGS)
def test_a_log_of_any_version_is_taken(client: TestClient, version: str) -> None:
    """A job's link and its log tell the same results; the config that they adopted has a value for every knob."""
    run = pushed(client, version)
    study_id, statuses = reported(client, version)

    assert (study_id, len(RECORDINGS[version]["results"]), None) == (run["study_id"], run["new"], run["reason"])
    assert {"same"} == statuses
    assert run["new"] == pushed(client, version)["same"]
    key = RECORDINGS[version]["study"]["key"]
    query = {"model_fingerprint": key["model"], "hardware": key["hardware"], "world_size": 2, "local_size": 2}
    config = client.get("/v1/recommendations", params=query).json()["config"]
    assert {**default_config(), "fusion_bytes": 8 << 20} == config


@pytest.mark.parametrize("version", RECORDINGS)
def test_an_export_of_any_version_is_taken(client: TestClient, version: str) -> None:
    """An export's results are those of its job: each is there once, however it came."""
    lines = "\n".join(RECORDINGS[version]["export"])
    taken = [client.post("/v1/import", content=lines, headers=JSON_LINES) for _ in range(2)]

    assert [200, 200] == [reply.status_code for reply in taken], taken[0].text
    assert [len(RECORDINGS[version]["results"]), 0] == [reply.json()["results"] for reply in taken]
    assert {"same"} == reported(client, version)[1]


@pytest.mark.parametrize("version", RECORDINGS)
def test_an_ask_is_answered_with_the_knobs_that_the_job_knows(client: TestClient, version: str) -> None:
    """An ask has no knob that its job does not know, whatever version made the study; nor has the result."""
    study_id, _ = reported(client, next(name for name in RECORDINGS if name != version))
    ids = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(2)]
    ask = {"trial_id": ids[0], "job_id": ids[1], "search_space": RECORDINGS[version]["study"]["search_space"]}

    replies = [client.post(f"/v1/studies/{study_id}/suggestions", json=ask) for _ in range(2)]

    assert [200, 200] == [reply.status_code for reply in replies], replies[0].text
    given = [reply.json()["config"] for reply in replies]
    assert given[0] == given[1]
    assert set(RECORDINGS[version]["engine_knobs"]) == set(given[0])
    result = {**RECORDINGS[version]["results"][1], "job_id": ids[1], "config": given[0], "run_id": None}
    del result["trial_id"]
    stored = client.put(f"/v1/studies/{study_id}/trials/{ids[0]}/result", json=result)
    assert 201 == stored.status_code, stored.text


def test_a_knob_that_this_version_does_not_know_is_refused_by_a_code_that_jobs_wait_for(client: TestClient) -> None:
    """A job of a later version keeps its results for a later service: see `FINAL_CODES` of the delivery."""
    recording = json.loads(json.dumps(RECORDINGS[TODAY]))
    study_id = client.post("/v1/studies", json=recording["study"]).json()["id"]
    recording["study"]["search_space"]["parameters"].append({"kind": "boolean", "name": "later", "default": False})
    unknown, impossible, taken = recording["results"][:3]
    unknown["config"]["later"], impossible["steps"] = True, 0

    study = client.post("/v1/studies", json=recording["study"])
    batch = client.post(f"/v1/studies/{study_id}/results", json={"results": [unknown, impossible, taken]}).json()

    assert (422, "outside_search_space") == (study.status_code, study.json()["code"])
    statuses = [("refused", "outside_search_space"), ("refused", "implausible_result"), ("new", None)]
    assert statuses == [(item["status"], item["code"]) for item in batch["items"]]


def test_a_database_of_the_first_version_is_as_if_this_one_had_been_told(tmp_path: Path) -> None:
    """The migration gives configs and spaces their later knobs: the same report again is the same, and adds up."""
    file = tmp_path / "old.db"
    with sqlite3.connect(file) as connection:
        connection.executescript((FOLDER / f"{FIRST}.sql").read_text())
    found = []
    for path in (file, tmp_path / "new.db"):
        database = Database.open(f"sqlite:///{path}")
        service = Service(database, policy=ServiceLimits(design_workers=0))
        assert service.migrate()
        service.start()
        (run,) = service.ledger.take_run(RECORDINGS[FIRST]["records"])
        assert run.study_id is not None
        with database.reading() as connection:
            rows = [
                [getattr(row, name) for name in LEDGER_COLUMNS] for row in reports.of_study(connection, run.study_id)
            ]
            *judged, records = summaries.everything(connection, run.study_id)
        jobs = [(row["job_id"], row["results"], row["trials"]) for row in records]
        found.append((rows, [[row["config_digest"] for row in table] for table in judged], jobs))
        space = service.studies.get(run.study_id).space
        assert EVERY_KNOB == [parameter["name"] for parameter in space["parameters"]]
        service.close()

    assert len(RECORDINGS[FIRST]["results"]) == len(found[0][0])
    assert found[1] == found[0]
