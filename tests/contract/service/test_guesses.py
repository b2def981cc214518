# SPDX-License-Identifier: Apache-2.0
"""Guesses of tokens are slowed over the whole application: at the API and at the sign-in alike."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient

from ringtune.service import app
from tests.contract.service.applications import READ_SECRET, application, bearer


def test_guesses_are_answered_429_and_known_callers_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that had a valid token from the same address before is answered as ever; the clock stands still."""
    monkeypatch.setattr(app, "time", SimpleNamespace(monotonic=lambda: 0.0))
    with TestClient(application(tmp_path)) as client:
        assert 200 == client.get("/v1/studies", headers=bearer(READ_SECRET)).status_code
        replies = [client.get("/v1/studies", headers=bearer(f"guess-{number:020}")) for number in range(60)]
        known = client.get("/v1/studies", headers=bearer(READ_SECRET))
        nobody = client.get("/v1/studies")
        health = client.get("/healthz", headers=bearer("guess"))

    assert {401, 429} == set(Counter(reply.status_code for reply in replies))
    assert ("rate_limited", "1") == (replies[-1].json()["code"], replies[-1].headers["retry-after"])
    assert [200, 401, 200] == [known.status_code, nobody.status_code, health.status_code]
