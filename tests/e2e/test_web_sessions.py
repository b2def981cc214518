# SPDX-License-Identifier: Apache-2.0
"""Cookies know no ports: requests that a server on another port of the host receives, and their use to it.

The other server is real, as is the browser that goes there after it has signed in.
"""

import http.server
import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringtune.dashboards.web.session_cookie import NAME, SECURE_NAME
from tests.contract.service.applications import ADMIN_SECRET, READ_SECRET
from tests.contract.service.routes import SCOPES, path_of
from tests.e2e.browsing import CHROMIUM, FLAGS, LIMIT_MS, visiting
from tests.e2e.web_service import WebService, web_service

TOKENS = {"RINGTUNE_SERVICE_ADMIN_TOKEN": ADMIN_SECRET, "RINGTUNE_SERVICE_READ_TOKEN": READ_SECRET}
HOST = "service.test"
LIMIT_S = 60.0
STORED_KEY = "localStorage.getItem('ringtune.form_key')"
pytestmark = pytest.mark.timeout(600)


class OtherPort:
    """The requests that a server of somebody else on the same host received."""

    def __init__(self, port: int, scheme: str) -> None:
        """Start without requests."""
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.cookies: list[str] = []
        self.page = ""

    @property
    def stolen(self) -> dict[str, str]:
        """The first cookies, by name."""
        found = next(text for text in self.cookies if text)
        return dict(part.strip().split("=", 1) for part in found.split(";"))


@contextmanager
def other_port(tls: ssl.SSLContext | None = None) -> Iterator[OtherPort]:
    """Run a server on another port, which notes the cookies that browsers send to it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            other.cookies.append(self.headers.get("Cookie") or "")
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(other.page.encode())

        def log_message(self, *_: object) -> None:
            """Keep requests out of the output."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    other = OtherPort(server.server_port, "http" if tls is None else "https")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield other
    finally:
        server.shutdown()
        thread.join(LIMIT_S)
        server.server_close()


def sign_in(page: Any, url: str, secret: str, wanted: str = "/tokens") -> None:
    """Sign in, and wait for the page that was asked for."""
    page.goto(url + wanted)
    page.get_by_role("textbox", name="Token").fill(secret)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**{wanted}")


def thief_of(service: WebService, cookie: str) -> httpx.Client:
    """Return a program that has only a Cookie header, and may claim any origin."""
    headers = {"cookie": cookie, "origin": service.url, "accept": "text/html"}
    return httpx.Client(base_url=service.url, headers=headers, timeout=LIMIT_S, verify=False)


def test_another_port_receives_a_session_that_reads_pages_and_no_token(browser: Any, tmp_path: Path) -> None:
    """The session opens no call of the API, changes no data, finds no key in any page, and ends at the sign-out."""
    with web_service(tmp_path, TOKENS, ADMIN_SECRET) as service, visiting(browser) as seen, other_port() as other:
        sign_in(seen.page, service.url, ADMIN_SECRET)
        key = seen.page.evaluate(STORED_KEY)
        seen.page.goto(other.url)
        assert [NAME] == list(other.stolen)
        value = other.stolen[NAME]

        with thief_of(service, f"{NAME}={value}") as thief:
            assert ADMIN_SECRET not in other.cookies[0]
            assert re.fullmatch(r"[\w-]{43}", key)
            for method, template in sorted(SCOPES):
                for token in ({}, {"authorization": f"Bearer {value}"}):
                    assert 401 == thief.request(method, path_of(template), headers=token).status_code, template
            pages = [thief.get(path) for path in ("/studies", "/tokens", "/hardware", "/compare", "/recommendations")]
            assert [200] * 5 == [page.status_code for page in pages]
            assert [] == [page.url for page in pages if key in page.text]
            assert 403 == thief.post("/tokens", data={"name": "evil", "scope": "admin"}).status_code
            assert 403 == thief.post("/sign-out", data={}).status_code
            assert [] == service.client.get("/v1/tokens").json()["items"]

            seen.page.goto(f"{service.url}/tokens")
            seen.page.get_by_label("Who or what uses it").fill("mine")
            seen.page.get_by_role("button", name="Create").click()
            assert seen.page.locator("#secret").inner_text().startswith("rt_")
            seen.page.get_by_role("button", name="Sign out").click()
            seen.page.wait_for_url("**/sign-in")
            assert [303, 303] == [thief.get(path).status_code for path in ("/studies", "/tokens")]


def test_a_page_of_another_port_sends_no_form_and_reads_nothing(browser: Any, tmp_path: Path) -> None:
    """A signed-in user's browser sends the cookie along, and that is not enough."""
    with web_service(tmp_path, TOKENS, ADMIN_SECRET) as service, visiting(browser) as seen, other_port() as other:
        sign_in(seen.page, service.url, ADMIN_SECRET)
        other.page = (
            f"<form method=post action='{service.url}/tokens'><input name=name value=evil>"
            f"<input name=scope value=admin><button>Go</button></form>"
        )
        seen.page.goto(other.url)
        read = seen.page.evaluate(
            f"fetch('{service.url}/tokens', {{credentials: 'include'}}).then(() => 'read', () => 'refused')"
        )
        stored = seen.page.evaluate(STORED_KEY)
        with seen.page.expect_response(f"{service.url}/tokens") as refused:
            seen.page.get_by_role("button", name="Go").click()

        assert ("refused", None) == (read, stored)
        assert 403 == refused.value.status
        assert [] == service.client.get("/v1/tokens").json()["items"]


def test_a_failed_sign_in_keeps_the_key_of_the_session_before(browser: Any, tmp_path: Path) -> None:
    """A new key holds once a page says that somebody is signed in."""
    with web_service(tmp_path, TOKENS, ADMIN_SECRET) as service, visiting(browser) as seen:
        sign_in(seen.page, service.url, ADMIN_SECRET)
        before = seen.page.evaluate(STORED_KEY)
        seen.page.goto(f"{service.url}/sign-in")
        seen.page.get_by_role("textbox", name="Token").fill("wrong")
        seen.page.get_by_role("button", name="Sign in").click()
        seen.page.get_by_role("alert").wait_for(timeout=LIMIT_MS)
        assert before == seen.page.evaluate(STORED_KEY)

        seen.page.get_by_role("textbox", name="Token").fill(ADMIN_SECRET)
        seen.page.get_by_role("button", name="Sign in").click()
        seen.page.wait_for_url("**/studies")

        assert before != seen.page.evaluate(STORED_KEY)
        seen.page.get_by_role("button", name="Sign out").click()
        seen.page.wait_for_url("**/sign-in")


def test_without_scripts_a_form_asks_for_the_token(browser: Any, tmp_path: Path) -> None:
    """Somebody signs in, creates a token and signs out."""
    with web_service(tmp_path, TOKENS, ADMIN_SECRET) as service:
        context = browser.new_context(java_script_enabled=False)
        context.set_default_timeout(LIMIT_MS)
        page = context.new_page()
        sign_in(page, service.url, ADMIN_SECRET)

        page.get_by_label("Who or what uses it").fill("mine")
        page.get_by_role("button", name="Create").click()
        page.get_by_label("Your token").fill(ADMIN_SECRET)
        page.get_by_role("button", name="Go on").click()
        assert str(page.locator("#secret").text_content()).startswith("rt_")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Your token").fill(ADMIN_SECRET)
        page.get_by_role("button", name="Go on").click()
        page.wait_for_url("**/sign-in")

        page.goto(f"{service.url}/studies")
        assert page.url.startswith(f"{service.url}/sign-in")
        context.close()


def test_over_tls_a_port_without_it_receives_nothing(browser: Any, tmp_path: Path) -> None:
    """A port without TLS cannot plant a session either; one with TLS receives a session that reads pages."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    arguments = f"req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {certificate} -subj /CN={HOST}"
    subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    files = {"RINGTUNE_SERVICE_TLS_CERTIFICATE": str(certificate), "RINGTUNE_SERVICE_TLS_KEY": str(key)}
    # Not a loopback address: browsers take those for secure without TLS, too.
    named = browser.browser_type.launch(
        executable_path=CHROMIUM, args=[*FLAGS, f"--host-resolver-rules=MAP {HOST} 127.0.0.1"]
    )
    with web_service(tmp_path, {**TOKENS, **files}, ADMIN_SECRET) as service, other_port() as plain:
        url = service.url.replace("127.0.0.1", HOST)
        page = named.new_context(ignore_https_errors=True).new_page()
        page.set_default_timeout(LIMIT_MS)
        sign_in(page, url, ADMIN_SECRET)
        with other_port(tls) as other:
            page.goto(plain.url.replace("127.0.0.1", HOST))
            page.evaluate(f"document.cookie = '{SECURE_NAME}=planted; path=/'")
            page.evaluate(f"document.cookie = '{NAME}=planted; path=/'")
            page.goto(f"{url}/tokens")
            is_signed_in = page.get_by_role("button", name="Sign out").count() == 1
            page.goto(other.url.replace("127.0.0.1", HOST))

        assert [""] == plain.cookies[:1]
        assert is_signed_in
        assert "planted" == other.stolen.get(NAME, "planted")
        with thief_of(service, f"{SECURE_NAME}={other.stolen[SECURE_NAME]}") as thief:
            assert [200, 401] == [thief.get(path).status_code for path in ("/tokens", "/v1/tokens")]
            page.goto(f"{url}/tokens")
            page.get_by_role("button", name="Sign out").click()
            page.wait_for_url("**/sign-in")
            assert 303 == thief.get("/tokens").status_code
    named.close()
