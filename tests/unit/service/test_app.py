# SPDX-License-Identifier: Apache-2.0
"""The application's work beside answering: it keeps the ledger clean for as long as it runs."""

import threading
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from ringtune.service import app as app_module
from ringtune.service.domain.retention import ClockDoubted
from ringtune.service.domain.values import Removed
from ringtune.service.errors import StoreUnavailable
from ringtune.service.settings import ServiceSettings

LIMIT_S = 60.0


def told_of_retention(
    failures: Sequence[Exception], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[MutableMapping[str, Any]]:
    """Return the log's lines on retention that fails so, in order, and then goes well twice."""
    left = list(failures)
    successes: list[Removed] = []
    has_ended = threading.Event()

    def apply() -> Removed:
        if left:
            raise left.pop(0)
        successes.append(Removed(3, 2))
        if len(successes) > 1:
            has_ended.set()
        return successes[-1]

    monkeypatch.setattr(app_module, "FIRST_RETENTION_S", 0.01)
    monkeypatch.setattr(app_module, "RETENTION_INTERVAL_S", 0.01)
    url = f"sqlite:///{folder / 'service.sqlite3'}"
    app = app_module.create_app(ServiceSettings.read(database_url=url, retention_days=1.0, design_workers=0))
    monkeypatch.setattr(app.state.service_state.service.retention, "apply", apply)

    with capture_logs() as log, TestClient(app, base_url="http://127.0.0.1"):
        assert has_ended.wait(LIMIT_S)
    return [entry for entry in log if entry["event"].startswith("retention_")]


def test_retention_goes_on_whatever_it_meets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is away, and a bug: each is logged with its cause, and the next time it is tried again."""
    failures = [StoreUnavailable("the database is away"), ZeroDivisionError("a bug")]

    logged = told_of_retention(failures, tmp_path, monkeypatch)

    assert ["retention_failed", "retention_failed", "retention_applied"] == [entry["event"] for entry in logged[:3]]
    assert "the database is away" == logged[0]["detail"]
    assert ("error", True) == (logged[1]["log_level"], logged[1]["exc_info"])
    assert (3, 2) == (logged[2]["results"], logged[2]["trials"])


def test_a_doubted_clock_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention is refused as long as the clock is doubted; the log has one warning for that, and the next applied."""
    doubts = [ClockDoubted("the clock may be ahead")] * 3

    entries = told_of_retention(doubts, tmp_path, monkeypatch)

    events = [(entry["event"], entry["log_level"]) for entry in entries]
    refused = "retention_refused"
    assert [(refused, "warning"), (refused, "debug"), (refused, "debug"), ("retention_applied", "info")] == events[:4]
