# SPDX-License-Identifier: Apache-2.0
"""Methods and headers that no client sends open no route without a token."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tests.contract.service.applications import ADMIN_SECRET
from tests.contract.service.routes import PAGES, SCOPES, path_of
from tests.contract.web.applications import application_with_pages

METHODS = ("TRACE", "CONNECT", "OPTIONS", "HEAD", "PROPFIND", "PURGE", "get", "GE T", "X" * 2000)
HERE = "http://127.0.0.1"
REFUSALS = {303, 400, 401, 403, 404, 405, 421}
"""303 leads a browser to the sign-in."""
PATHS = sorted({path_of(template) for _, template in {**SCOPES, **PAGES}})
DISGUISES = {
    "overridden": [("x-http-method-override", "GET"), ("x-method-override", "GET"), ("x-http-method", "GET")],
    "forwarded": [("x-forwarded-for", "127.0.0.1"), ("x-real-ip", "127.0.0.1"), ("forwarded", "for=127.0.0.1")],
    "rewritten": [("x-original-url", "/healthz"), ("x-rewrite-url", "/healthz"), ("x-forwarded-prefix", "/")],
    "two tokens": [("authorization", "Bearer x"), ("authorization", "Bearer y")],
    "another scheme": [("authorization", f"Basic {ADMIN_SECRET}")],
    "no scheme": [("authorization", ADMIN_SECRET)],
    "cookie": [("cookie", f"ringtune_sign_in={ADMIN_SECRET}; __Host-ringtune_sign_in={ADMIN_SECRET}")],
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A stranger to an application with pages, where tokens are set."""
    app = application_with_pages(tmp_path_factory.mktemp("service"))
    with TestClient(app, base_url=HERE, raise_server_exceptions=False, follow_redirects=False) as speaker:
        yield speaker


@pytest.mark.parametrize("method", METHODS)
def test_no_method_opens_a_route(client: TestClient, method: str) -> None:
    """Every path is refused or leads to the sign-in; none fails."""
    statuses = {path: client.request(method, path).status_code for path in PATHS}

    assert {} == {path: status for path, status in statuses.items() if status not in REFUSALS}


@pytest.mark.parametrize("disguise", sorted(DISGUISES))
def test_no_header_opens_a_route(client: TestClient, disguise: str) -> None:
    """A proxy's headers, doubled tokens, other schemes and old cookies are no token."""
    statuses = {
        (method, path): client.request(method, path, headers=DISGUISES[disguise]).status_code
        for path in PATHS
        for method in ("GET", "POST")
    }

    assert {} == {call: status for call, status in statuses.items() if status not in REFUSALS}
