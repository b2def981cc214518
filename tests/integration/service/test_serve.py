# SPDX-License-Identifier: Apache-2.0
"""`ringtune serve`, alone and with operators' additions: start, refusals, end."""

import errno
import os
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from ringtune.service.store import reports
from tests.contract.service.requests import STUDY_BODY, UUIDS, result_body
from tests.integration.service.server_process import CommandLine, serving, serving_launched

SECRET = "a-secret-that-is-long-enough"


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line, in this process."""
    return CommandLine(tmp_path, monkeypatch, capsys)


def test_it_runs_alone(tmp_path: Path, record_property: Any) -> None:
    """SQLite in the user's data folder, for this user alone; stored results are there after the next start."""
    begun_s = time.monotonic()
    with serving_launched(tmp_path) as server:
        assert {"status": "ok"} == server.client.get("/readyz").json()
        record_property("ready_s", round(time.monotonic() - begun_s, 2))
        data = tmp_path / "ringtune" / "service.sqlite3"
        assert str(data) == server.data
        assert 0o700 == stat.S_IMODE(data.parent.stat().st_mode)
        study = server.client.post("/v1/studies", json=STUDY_BODY).json()
        assert 0 == server.end()

    with serving_launched(tmp_path) as server:
        assert [study["id"]] == [item["id"] for item in server.client.get("/v1/studies").json()["items"]]
        assert 0 == server.end(signal.SIGINT)


def test_the_server_process_stays_lean(tmp_path: Path) -> None:
    """SciPy's solvers and the engine stay out: they belong to the optimizer's processes and to jobs."""
    with serving_launched(tmp_path) as server:
        study_id = server.client.post("/v1/studies", json=STUDY_BODY).json()["id"]
        reply = server.client.post(
            f"/v1/studies/{study_id}/suggestions", json={"trial_id": UUIDS[0], "job_id": UUIDS[1]}
        )
        assert 200 == reply.status_code
        loaded = Path(f"/proc/{server.process.pid}/maps").read_text(encoding="utf-8")

    assert "numpy" in loaded
    assert not [name for name in ("/scipy/optimize/", "/sklearn/", "/ringtune/_engine", "/torch/") if name in loaded]


def test_the_whole_way_of_a_result(tmp_path: Path) -> None:
    """Study, ask, renew, tell, tell again, batch, recommendation, log of requests by id."""
    with serving(tmp_path) as server:
        client = server.client
        study_id = client.post("/v1/studies", json=STUDY_BODY).json()["id"]
        trial, job = UUIDS[0], UUIDS[1]
        suggestion = client.post(f"/v1/studies/{study_id}/suggestions", json={"trial_id": trial, "job_id": job}).json()
        again = client.post(f"/v1/studies/{study_id}/suggestions", json={"trial_id": trial, "job_id": job}).json()
        lease = f"/v1/studies/{study_id}/suggestions/{trial}/lease"
        renewed = client.put(
            lease, json={"job_id": job, "fencing_token": again["lease"]["fencing_token"], "lease_s": 60}
        )
        body = result_body(job, config=suggestion["config"], fencing_token=renewed.json()["lease"]["fencing_token"])
        place = f"/v1/studies/{study_id}/trials/{trial}/result"
        replies = [client.put(place, json=body) for _ in range(2)]
        other = client.put(place, json={**body, "steps": 41})
        batch = client.post(
            f"/v1/studies/{study_id}/results",
            json={"results": [{**body, "trial_id": trial}, {**result_body(job), "trial_id": UUIDS[2]}]},
        )
        found = client.get(
            "/v1/recommendations", params={"model": "digits", "hardware": "a" * 64, "world_size": 2, "local_size": 2}
        )

    assert suggestion["config"] == again["config"]
    assert [(201, "new"), (200, "same")] == [(reply.status_code, reply.json()["status"]) for reply in replies]
    assert (409, "result_conflict") == (other.status_code, other.json()["code"])
    assert ["same", "new"] == [item["status"] for item in batch.json()["items"]]
    assert (200, "ringtune") == (found.status_code, found.json()["target"])


def test_other_machines_are_not_let_in_without_a_token(tmp_path: Path, command: CommandLine) -> None:
    """A service for other machines does not listen before there is a token; then it asks for it."""
    refused = command.run("serve", "--host", "0.0.0.0", "--port", "0")
    created = command.run("token", "create", "--name", "ci", "--scope", "read")
    listed = command.run("token", "list")

    assert (2, "") == (refused.returncode, refused.stdout)
    assert "no token exists, and 0.0.0.0 can be reached from other machines" in refused.stderr
    secret = created.stdout.strip()
    assert listed.stdout.rstrip().endswith("today  ci")
    assert secret not in listed.stdout
    with serving(tmp_path, "--host", "0.0.0.0") as server:
        port = server.url.rpartition(":")[2]
        assert 401 == server.client.get(f"http://127.0.0.1:{port}/v1/studies").status_code
        allowed = server.client.get(
            f"http://127.0.0.1:{port}/v1/studies", headers={"Authorization": f"Bearer {secret}", "Host": "any.example"}
        )
        assert 200 == allowed.status_code

    token_id = listed.stdout.split()[0]
    command.run("token", "change", token_id, "--many-jobs")
    assert "many jobs" in command.run("token", "list").stdout
    command.run("token", "change", token_id, "--one-reporter")
    assert "many jobs" not in command.run("token", "list").stdout
    assert "0 results deleted" in command.run("token", "delete-results", token_id).stdout
    revoked = command.run("token", "revoke", token_id)
    assert 0 == revoked.returncode
    assert 2 == command.run("serve", "--host", "0.0.0.0", "--port", "0").returncode


def test_a_file_of_settings_is_named_or_refused(tmp_path: Path, command: CommandLine) -> None:
    """The start names the settings from `.env`, without the values; one that others may write stops every command."""
    file = tmp_path / ".env"
    file.write_text(f"RINGTUNE_SERVICE_ADMIN_TOKEN={SECRET}\nRINGTUNE_SERVICE_LOG_LEVEL=debug\n", encoding="utf-8")
    with serving(tmp_path) as server:
        assert server.process.stdout is not None
        line = server.process.stdout.readline()
    created = command.run("token", "create", "--name", "ci")
    file.chmod(0o666)
    arguments = (
        ["serve", "--port", "0"],
        ["token", "list"],
        ["token", "create", "--name", "x"],
        ["export"],
        ["import", "x"],
    )
    refused = [command.run(*each) for each in arguments]

    assert line.startswith("ringtune service: settings: port from flags; ")
    assert line.endswith(f"; admin_token, log_level from {file}\n")
    assert SECRET not in line
    assert 1 == len(created.stdout.split())
    assert f"admin_token, log_level from {file}" in created.stderr
    assert [(2, "", True)] * 5 == [(e.returncode, e.stdout, "can be written by others" in e.stderr) for e in refused]


def test_unusable_settings_are_named_in_one_paragraph(tmp_path: Path, command: CommandLine) -> None:
    """A taken port, a wrong setting, a missing certificate, a database that is none: the cause and the remedy."""
    (tmp_path / "no.sqlite3").write_bytes(b"this is no database" * 100)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        cases = [
            (["serve", "--port", port], 2, f"127.0.0.1 port {port} cannot be listened on"),
            (["serve", "--port", "70000"], 2, "RINGTUNE_SERVICE_PORT"),
            (["serve", "--port", "0", "--tls-certificate", "a.pem", "--tls-key", "b.pem"], 2, "a.pem is no file"),
            (["serve", "--port", "0", "--database-url", "mysql://x"], 1, "sqlite:///file or postgresql+psycopg://"),
            (["serve", "--port", "0", "--database-url", f"sqlite:///{tmp_path}/no.sqlite3"], 1, "database"),
            (["token", "create", "--name", "x", "--scope", "root"], 2, "allowed: read, report, admin"),
            (["token", "revoke", "0" * 16], 1, "there is no token"),
            (["import", "missing.jsonl"], 2, "missing.jsonl cannot be read"),
        ]
        for arguments, code, part in cases:
            ended = command.run(*arguments)
            assert (code, True) == (ended.returncode, part in ended.stderr), (arguments, ended.stderr)
            assert "Traceback" not in ended.stderr


def test_an_export_is_taken_by_another_database(tmp_path: Path, command: CommandLine) -> None:
    """Export, import, export again: the same lines."""
    (tmp_path / "other").mkdir()
    with serving(tmp_path) as server:
        study_id = server.client.post("/v1/studies", json=STUDY_BODY).json()["id"]
        server.client.put(f"/v1/studies/{study_id}/trials/{UUIDS[0]}/result", json=result_body(UUIDS[1]))
        over_http = server.client.get("/v1/export").text
    out = command.run("export", "all.jsonl")
    taken = command.run("import", str(tmp_path / "all.jsonl"), folder=tmp_path / "other")
    again = command.run("export", folder=tmp_path / "other")

    assert (0, 0) == (out.returncode, taken.returncode), out.stderr + taken.stderr
    assert "1 study and 1 result taken, 0 of both there before" in taken.stdout
    assert over_http == again.stdout == (tmp_path / "all.jsonl").read_text(encoding="utf-8")


def test_an_export_that_fails_in_the_middle_leaves_no_file(
    tmp_path: Path, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full, and a database that goes away: earlier rows are there, and the reason is given."""
    with serving(tmp_path) as server:
        study_id = server.client.post("/v1/studies", json=STUDY_BODY).json()["id"]
        server.client.put(f"/v1/studies/{study_id}/trials/{UUIDS[0]}/result", json=result_body(UUIDS[1]))
    before = set(tmp_path.iterdir())

    def lose(*_arguments: Any) -> Any:
        raise OperationalError("SELECT", {}, sqlite3.OperationalError("disk I/O error"))

    def have_no_room(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", have_no_room)
        full = command.run("export", "all.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(reports, "of_study", lose)
        lost = command.run("export", "all.jsonl")

    assert (2, True) == (full.returncode, "all.jsonl cannot be written (No space left on device)" in full.stderr), (
        full.stderr
    )
    assert (1, True) == (lost.returncode, "disk I/O error" in lost.stderr), lost.stderr
    assert before == set(tmp_path.iterdir())
    assert 0 == command.run("export", "all.jsonl").returncode


def test_tls_by_flags(tmp_path: Path) -> None:
    """HTTPS with the operator's certificate; plain HTTP is not answered there."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    subject = ("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate))
    subprocess.run(["openssl", *arguments.split(), *subject], check=True, capture_output=True)
    flags = ("--tls-certificate", str(certificate), "--tls-key", str(key))

    with serving(tmp_path, *flags, verify=ssl.create_default_context(cafile=str(certificate))) as server:
        assert server.url.startswith("https://")
        assert 200 == server.client.get("/readyz").status_code
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 5) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" not in plain.recv(4096)


def test_no_secret_reaches_the_log(tmp_path: Path) -> None:
    """The log has neither the tokens of settings nor those of requests."""
    variables = {"RINGTUNE_SERVICE_ADMIN_TOKEN": SECRET, "RINGTUNE_SERVICE_LOG_LEVEL": "debug"}
    with serving(tmp_path, "--log-format", "json", variables=variables) as server:
        for secret in (SECRET, "another-secret-of-a-request"):
            server.client.get("/v1/studies", headers={"Authorization": f"Bearer {secret}"})
        assert 0 == server.end()

    log = (tmp_path / "stderr.txt").read_text(encoding="utf-8")
    assert '"event": "service_started"' in log
    assert "secret" not in log
