# SPDX-License-Identifier: Apache-2.0
"""Jobs that can wait for a good service on a busy machine."""

import pytest

from ringtune.tuning.service_link import http_link

LIMIT_S = 60.0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs wait for a service that shares few and busy cores with everything else, where its answer is tested."""
    monkeypatch.setattr(http_link, "START_LIMIT_S", LIMIT_S)
    monkeypatch.setattr(http_link, "CLOSE_LIMIT_S", LIMIT_S)
    monkeypatch.setattr(http_link, "REPORT_LIMIT_S", LIMIT_S)
