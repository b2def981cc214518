# SPDX-License-Identifier: Apache-2.0
"""What the application does beside answering: it keeps the ledger clean for as long as it runs."""

import threading
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from ringtune.service import app as app_module
from ringtune.service.domain.retention import ClockDoubted
from ringtune.service.domain.values import Removed
from ringtune.service.errors import StoreUnavailable
from ringtune.service.settings import ServiceSettings

LIMIT_S = 60.0


def test_retention_goes_on_whatever_it_meets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is away, and a bug: each is logged with what happened, and the next time it is tried again."""
    failures = [StoreUnavailable("the database is away"), ZeroDivisionError("a bug")]
    has_ended = threading.Event()

    def apply() -> Removed:
        if failures:
            raise failures.pop(0)
        has_ended.set()
        return Removed(3, 2)

    monkeypatch.setattr(app_module, "FIRST_RETENTION_S", 0.01)
    monkeypatch.setattr(app_module, "RETENTION_INTERVAL_S", 0.01)
    url = f"sqlite:///{tmp_path / 'service.sqlite3'}"
    app = app_module.create_app(ServiceSettings.read(database_url=url, retention_days=1.0, design_workers=0))
    monkeypatch.setattr(app.state.parts.service.retention, "apply", apply)

    with capture_logs() as log, TestClient(app, base_url="http://127.0.0.1"):
        assert has_ended.wait(LIMIT_S)

    told = [entry for entry in log if entry["event"].startswith("retention_")]
    assert ["retention_failed", "retention_failed", "retention_applied"] == [entry["event"] for entry in told[:3]]
    assert "the database is away" == told[0]["detail"]
    assert ("error", True) == (told[1]["log_level"], told[1]["exc_info"])
    assert (3, 2) == (told[2]["results"], told[2]["trials"])


def test_a_doubted_clock_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention is refused as long as the clock is doubted; the log has one warning for that, and the next applied."""
    doubts = [ClockDoubted("the clock may be ahead")] * 3
    calls: list[int] = []
    has_ended = threading.Event()

    def apply() -> Removed:
        if doubts:
            raise doubts.pop()
        calls.append(1)
        if len(calls) > 1:  # the first has been told by now
            has_ended.set()
        return Removed(3, 2)

    monkeypatch.setattr(app_module, "FIRST_RETENTION_S", 0.01)
    monkeypatch.setattr(app_module, "RETENTION_INTERVAL_S", 0.01)
    url = f"sqlite:///{tmp_path / 'service.sqlite3'}"
    app = app_module.create_app(ServiceSettings.read(database_url=url, retention_days=1.0, design_workers=0))
    monkeypatch.setattr(app.state.parts.service.retention, "apply", apply)

    with capture_logs() as log, TestClient(app, base_url="http://127.0.0.1"):
        assert has_ended.wait(LIMIT_S)

    told = [(entry["event"], entry["log_level"]) for entry in log if entry["event"].startswith("retention_")]
    refused = "retention_refused"
    assert [(refused, "warning"), (refused, "debug"), (refused, "debug"), ("retention_applied", "info")] == told[:4]
