# SPDX-License-Identifier: Apache-2.0
"""`ringtune doctor` on machines that are made here: with a service, full and damaged caches, GPUs, wrong settings."""

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from ringtune import cli
from ringtune.commands import doctor
from ringtune.commands.doctor import DoctorReport
from ringtune.commands.findings import machine, storage
from ringtune.identity.gpu_facts import Gpus
from ringtune.tuner import StudyStore
from ringtune.tuning.service_link.spool import Spool
from tests.integration.service import server_process
from tests.integration.service_link.jobs import tuned_records
from tests.integration.service_link.servers import always, black_hole, closed_port, http_reply, serving

SERVICE = "http://127.0.0.1:8080"
NAME = "NVIDIA Stand-in 80GB"
LIMIT_S = 60.0


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with an empty cache folder, and no variable set."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine seem idle to the report."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.2, 0.3))


def value(report: DoctorReport, name: str) -> str:
    """Return the one finding of a name."""
    (found,) = [text for section in report.sections for title, text in section.findings if title == name]
    return found


def problems(report: DoctorReport) -> str:
    """Return all problems as one text."""
    return "\n".join(f"{problem.what} | {problem.remedy}" for problem in report.problems)


def test_a_machine_without_anything_has_no_problem(environ: dict[str, str]) -> None:
    """Processor and cores are named; unset options are named, and are no fault; no file is made."""
    report = doctor.examine(environ)

    assert "" == problems(report)
    assert value(report, "cpu")
    assert " usable of " in value(report, "cores")
    assert value(report, "service").startswith("none (AUTOTUNE_SERVICE_URL is not set)")
    assert "not made yet, can be written" in value(report, "cache folder")
    assert "none: a job runs by the defaults" == value(report, "variables")
    assert not Path(environ["XDG_CACHE_HOME"]).exists()


@pytest.mark.parametrize(("load", "is_busy"), [(3.9, False), (4.1, True)])
def test_a_busy_machine_is_a_problem(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, load: float, is_busy: bool
) -> None:
    """More processes than cores want to run: the load and the cores are named, for noise decides verdicts."""
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 2.0, 1.0))
    monkeypatch.setattr(machine, "machine_facts", lambda: {"cores": 4, "numa_nodes": 1, "cpu_model": "x"})

    report = doctor.examine(environ)

    assert f"{load} / 2.0 / 1.0 over 1 / 5 / 15 minutes" == value(report, "load")
    assert is_busy == (f"the machine is busy: {load} processes want to run, on 4 cores" in problems(report))
    assert is_busy == ("no problem was found" not in report.lines())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a service that shares few and busy cores answer."""
    monkeypatch.setattr("ringtune.commands.findings.service.LIMIT_S", LIMIT_S)


@pytest.mark.usefixtures("patient")
def test_a_service_is_asked_with_the_token(tmp_path: Path, environ: dict[str, str]) -> None:
    """The report has the service's version, its answer to the token, and the delay; it never has the token."""
    secret = "s" * 32
    with server_process.serving(tmp_path, variables={"RINGTUNE_SERVICE_READ_TOKEN": secret}) as server:
        with_service = {**environ, "AUTOTUNE_SERVICE_URL": server.url}
        good = doctor.examine({**with_service, "AUTOTUNE_SERVICE_TOKEN": secret})
        none = doctor.examine(with_service)
        wrong = doctor.examine({**with_service, "AUTOTUNE_SERVICE_TOKEN": "w" * 32})

    assert (server.url, version("ringtune"), "accepted") == tuple(
        value(good, name) for name in ("url", "version", "token")
    )
    assert value(good, "answers").startswith("yes, ")
    assert value(good, "answers").endswith(" ms")
    assert "none set, and the service wants one" == value(none, "token")
    assert "ringtune token create" in problems(none)
    assert "not accepted" == value(wrong, "token")
    assert "does not accept the token" in problems(wrong)
    for report in (good, none, wrong):
        assert secret not in json.dumps(report.to_json())
        assert "w" * 32 not in json.dumps(report.to_json())
    assert "" == problems(good)


@pytest.mark.usefixtures("patient")
def test_a_token_that_may_not_read_is_told_apart(environ: dict[str, str]) -> None:
    """403 is another thing than 401."""
    reply = http_reply(b'{"code":"forbidden","detail":"needs read"}', "403 Forbidden")
    with serving(always(reply)) as url:
        report = doctor.examine({**environ, "AUTOTUNE_SERVICE_URL": url, "AUTOTUNE_SERVICE_TOKEN": "t"})

    assert value(report, "token").startswith("accepted, without the scope `read`")
    assert "may not read" in problems(report)


def test_a_service_that_is_away_is_a_problem_with_a_remedy(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server, a silent one, another one than the service, a URL that is none."""
    monkeypatch.setattr("ringtune.commands.findings.service.LIMIT_S", 0.5)
    away = doctor.examine({**environ, "AUTOTUNE_SERVICE_URL": closed_port()})
    with serving(black_hole) as url:
        silent = doctor.examine({**environ, "AUTOTUNE_SERVICE_URL": url})
    monkeypatch.setattr("ringtune.commands.findings.service.LIMIT_S", LIMIT_S)
    with serving(always(http_reply(b'{"info": {}}'))) as url:
        other = doctor.examine({**environ, "AUTOTUNE_SERVICE_URL": url})
    malformed = doctor.examine({**environ, "AUTOTUNE_SERVICE_URL": "ftp://x"})

    assert value(away, "answers").startswith("no, ")
    assert "Connection refused" in problems(away)
    assert "ringtune serve" in problems(away)
    assert value(silent, "answers").startswith("no, ")
    assert "without a version" in problems(other)
    assert "'ftp://x' is no URL of a service" in problems(malformed)


def test_caches_and_spool_are_counted(environ: dict[str, str]) -> None:
    """Finished runs, and the results that wait to be delivered, over all services and jobs."""
    folder = Path(environ["XDG_CACHE_HOME"]) / "ringtune"
    StudyStore(folder / "studies.jsonl").keep(tuned_records())
    spool = Spool(folder, SERVICE).open("job-1")
    for number in range(3):
        spool.append(b'{"result": %d}' % number)

    report = doctor.examine(environ)
    spool.close()

    assert f"{folder / 'studies.jsonl'}: 1 finished run, 0 unfinished, " in value(report, "studies")
    assert "to be delivered: 3 results of 1 job, " in value(report, "spool")
    assert f"{folder}: 2 files, " in value(report, "cache folder")
    assert "" == problems(report)


def test_what_is_wrong_with_caches_is_said(environ: dict[str, str], tmp_path: Path) -> None:
    """A damaged file, a file that is none, a read-only folder, a full disk."""
    folder = Path(environ["XDG_CACHE_HOME"]) / "ringtune"
    StudyStore(folder / "studies.jsonl").keep(tuned_records())
    with (folder / "studies.jsonl").open("a", encoding="utf-8") as file:
        file.write("garbage\n")
    damaged = doctor.examine(environ)
    none = doctor.examine({**environ, "AUTOTUNE_CACHE": str(tmp_path)})
    off = doctor.examine({**environ, "AUTOTUNE_CACHE": "0"})
    unwritable = doctor.examine({"XDG_CACHE_HOME": "/proc/ringtune"})

    assert "left out 1 line of it" in problems(damaged)
    assert "no regular file" in problems(none)
    assert "off (AUTOTUNE_CACHE=0)" == value(off, "studies")
    assert "set XDG_CACHE_HOME" in problems(unwritable)
    assert "nothing can be kept in /proc/ringtune/ringtune" in problems(unwritable)


def test_a_full_disk_is_said(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that cannot be delivered would be lost."""
    monkeypatch.setattr(storage, "LEAST_FREE_BYTES", 1 << 62)

    assert "free some" in problems(doctor.examine(environ))


def test_gpus_that_cannot_be_used_are_a_problem(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver shows them; torch is a build for CPUs, CUDA finds none, and there is no NCCL."""
    monkeypatch.setattr(machine, "find_gpus", lambda: Gpus((NAME,) * 2, "nvlink", "580.65.06"))
    monkeypatch.setattr(machine, "installed_nccl", lambda: None)
    monkeypatch.setattr(machine, "find_nccl", lambda: "")
    report = doctor.examine(environ)

    assert f"2 x {NAME}, joined by nvlink" == value(report, "GPUs")
    assert "580.65.06" == value(report, "driver")
    assert "the driver shows 2 GPUs, and there is no NCCL" in problems(report)
    if not machine._engine_has_cuda():
        assert "CUDA_VISIBLE_DEVICES" in problems(report)
    if version("torch").endswith("+cpu"):
        assert "is a build for CPUs, and the driver shows 2 GPUs" in problems(report)


def test_a_wrong_setting_is_said_before_a_job_stops(environ: dict[str, str]) -> None:
    """The report has the variable, the value and the allowed values."""
    report = doctor.examine({**environ, "RINGTUNE_CYCLE_MS": "nan"})

    assert "RINGTUNE_CYCLE_MS='nan' is not allowed" in problems(report)


def test_text_and_json_say_the_same(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each finding of the one is in the other, and so is each problem; the exit code is 0 with problems, too."""
    for name, text in {**environ, "AUTOTUNE_SERVICE_URL": "ftp://x"}.items():
        monkeypatch.setenv(name, text)

    assert 0 == cli._run_app(["doctor"])
    shown = capsys.readouterr().out
    assert 0 == cli._run_app(["doctor", "--json"])
    written: dict[str, Any] = json.loads(capsys.readouterr().out)

    assert 1 == written["schema"]
    for section in written["sections"]:
        assert section["title"] in shown
        for finding in section["findings"]:
            assert finding["name"] in shown
    (problem,) = written["problems"]
    assert problem["what"] in shown
    assert f"To do: {problem['remedy']}" in shown
