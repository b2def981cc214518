# SPDX-License-Identifier: Apache-2.0
"""Headers of every reply, and HEAD, over the whole application."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.contract.service.applications import ADMIN_SECRET, READ_SECRET, application, bearer

PATHS = ("/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/studies", "/v1/tokens", "/v1/recommendations")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A client of an application with tokens, over HTTPS."""
    with TestClient(application(tmp_path), base_url="https://testserver", headers=bearer(ADMIN_SECRET)) as speaker:
        yield speaker


@pytest.mark.parametrize("path", PATHS)
def test_no_reply_is_guessed_at_or_kept(path: str, client: TestClient) -> None:
    """A reply has both headers even if it comes from the cache or refuses."""
    replies = [client.get(path), client.get(path), client.get(path, headers=bearer("no-such-token-of-anybody"))]

    for reply in replies:
        assert ("nosniff", "no-store") == (reply.headers["x-content-type-options"], reply.headers["cache-control"])


def test_a_new_token_is_kept_nowhere(client: TestClient) -> None:
    """The reply that shows the secret says so to whatever is in between."""
    reply = client.post("/v1/tokens", json={"name": "job", "scopes": ["read"]})

    assert (201, "no-store", "nosniff") == (
        reply.status_code,
        reply.headers["cache-control"],
        reply.headers["x-content-type-options"],
    )


def test_browsers_are_told_to_stay_with_tls_where_there_is_tls(client: TestClient) -> None:
    """Strict-Transport-Security is sent over TLS alone, since over HTTP it would have no effect."""
    plain = client.get("http://testserver/healthz")

    assert "max-age=31536000" == client.get("/healthz").headers["strict-transport-security"]
    assert "strict-transport-security" not in plain.headers


@pytest.mark.parametrize("path", PATHS)
def test_head_is_get_without_its_body(path: str, client: TestClient) -> None:
    """The same status, type and scope; where a reply lasts there is no HEAD."""
    head, got = client.head(path), client.get(path)

    assert (got.status_code, got.headers["content-type"]) == (head.status_code, head.headers["content-type"])
    assert client.head("/v1/tokens", headers=bearer(READ_SECRET)).status_code == 403
    assert [405, 405] == [client.head(lasting).status_code for lasting in ("/v1/events", "/v1/export")]


def test_head_is_counted_under_its_route(client: TestClient) -> None:
    """A HEAD request counts under its route, as every other request does."""
    client.head("/v1/studies")

    assert 'ringtune_requests_total{method="HEAD",route="/v1/studies",status="200"} 1.0' in client.get("/metrics").text
