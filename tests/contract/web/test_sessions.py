# SPDX-License-Identifier: Apache-2.0
"""A browser's session: the pages that it opens, its end, and that its cookie alone cannot change data."""

import html
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from ringtune.dashboards.web.paths import SAFE_METHODS
from ringtune.dashboards.web.session_cookie import NAME, SECURE_NAME
from ringtune.service.api.browser_sessions import LOOKUPS
from ringtune.service.domain.page_sessions import new_secret
from ringtune.service.errors import StoreUnavailable
from ringtune.service.store import Database
from ringtune.service.store.tables import page_sessions
from tests.contract.service.applications import ADMIN_SECRET, READ_SECRET, bearer
from tests.contract.service.routes import PAGES, PAGES_OPEN, SCOPES, path_of
from tests.contract.web.applications import BROWSER, FORM, FORM_KEY, HERE, application_with_pages, send, sign_in
from tests.unit.dashboards.pages import Page

TLS = "https://service.example"
LIMIT_S = 60.0


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A browser before an application with tokens; it follows no redirect by itself."""
    with TestClient(application_with_pages(tmp_path), base_url=HERE, headers=BROWSER, follow_redirects=False) as made:
        yield made


def another(client: TestClient) -> TestClient:
    """Return another browser before the same application, in the same event loop."""
    made = TestClient(client.app, base_url=HERE, headers=BROWSER, follow_redirects=False)
    made.portal = client.portal
    return made


@pytest.fixture
def thief(client: TestClient) -> TestClient:
    """Somebody else: a server on another port of the host."""
    return another(client)


def steal(client: TestClient, thief: TestClient) -> str:
    """Give the thief the Cookie header, which every port of the host receives. Returns its value."""
    thief.cookies.clear()
    value = str(client.cookies[NAME])
    thief.headers["cookie"] = f"{NAME}={value}"
    return value


def tokens_of(client: TestClient) -> list[str]:
    """Return the names of all tokens that were created."""
    return [item["name"] for item in client.get("/v1/tokens", headers=bearer(ADMIN_SECRET)).json()["items"]]


def test_the_cookie_is_no_token(client: TestClient) -> None:
    """The cookie is random, new at each sign-in, and has no part of the token in it."""
    values = []
    for _ in range(3):
        assert 303 == sign_in(client, ADMIN_SECRET)
        values.append(client.cookies[NAME])

    assert 3 == len(set(values))
    assert all(re.fullmatch(r"[\w-]{43}", value) for value in values)
    assert [] == [value for value in values if ADMIN_SECRET in value]


def test_a_stolen_cookie_opens_no_call_of_the_api(client: TestClient, thief: TestClient) -> None:
    """The API is closed to the cookie's value as a cookie and as a token, on any path and with any method."""
    sign_in(client, ADMIN_SECRET)
    value = steal(client, thief)

    assert 200 == thief.get("/studies").status_code
    for method, template in sorted(SCOPES):
        body: dict[str, Any] = {"json": {}} if method in {"PATCH", "POST", "PUT"} else {}
        for headers in ({}, bearer(value), {"origin": HERE}):
            reply = thief.request(method, path_of(template), headers=headers, **body)
            assert 401 == reply.status_code, (method, template, headers)


def pages_read_by(thief: TestClient) -> str:
    """Return the text of all pages that somebody reads."""
    paths = [path_of(template) for method, template in PAGES if method == "GET" and template != "/events"]
    return "\n".join(thief.get(path).text for path in paths)


def hidden_in(text: str) -> set[str]:
    """Return the values of all hidden fields."""
    fields = [field.attributes for field in Page.of(text).all("input")]
    return {str(field["value"]) for field in fields if field.get("type") == "hidden"}


def test_no_page_that_a_stolen_cookie_reads_has_the_key(client: TestClient, thief: TestClient) -> None:
    """No hidden field of a page does in the key's place: not one form is taken with them."""
    sign_in(client, ADMIN_SECRET)
    send(client, "/tokens", name="victim", scope="admin")
    steal(client, thief)

    text = pages_read_by(thief)

    assert FORM_KEY not in text
    assert "victim" in text
    for value in hidden_in(text):
        reply = thief.post("/tokens", data={"name": "evil", "scope": "admin", "form_key": value}, headers=FORM)
        assert 403 == reply.status_code
    assert ["victim"] == tokens_of(client)


@pytest.mark.parametrize("template", sorted(path for method, path in PAGES if method not in SAFE_METHODS))
def test_a_stolen_cookie_cannot_change_data(template: str, client: TestClient, thief: TestClient) -> None:
    """Without the key every form is refused, a sign-out included, and asks for the token."""
    sign_in(client, ADMIN_SECRET)
    created = send(client, "/tokens", name="victim", scope="admin").text
    steal(client, thief)
    handle = re.findall(r"/tokens/sessions/(\w+)/end", client.get("/tokens").text)[0]
    subject = handle if "sessions" in template else re.findall(r"rt_([0-9a-f]{16})_", created)[0]
    form = {"name": "evil", "scope": "admin"}

    for more in ({}, *({"form_key": key} for key in ("", handle, new_secret(), FORM_KEY[:-1], FORM_KEY + "-"))):
        reply = thief.post(path_of(template).replace("0" * 16, subject), data={**form, **more}, headers=FORM)
        assert (403, True) == (reply.status_code, "Confirm with your token" in reply.text), more

    tokens = client.get("/v1/tokens", headers=bearer(ADMIN_SECRET)).json()["items"]
    assert [("victim", False)] == [(token["name"], token["is_revoked"]) for token in tokens]
    assert 200 == client.get("/studies").status_code


def test_the_key_of_another_session_cannot_change_data(client: TestClient, thief: TestClient) -> None:
    """A form key belongs to its own session: another user's key is refused."""
    sign_in(client, ADMIN_SECRET)
    steal(client, thief)
    other_key = new_secret()
    other = another(client)
    assert 303 == sign_in(other, READ_SECRET, form_key=other_key)

    assert 403 == send(thief, "/tokens", name="evil", scope="admin", form_key=other_key).status_code
    assert 403 == send(other, "/sign-out").status_code
    assert 303 == send(other, "/sign-out", form_key=other_key).status_code


def test_signing_out_ends_the_session_for_whoever_has_its_cookie(client: TestClient, thief: TestClient) -> None:
    """At once, the events that it listens to included; another session with the same token goes on."""
    sign_in(client, READ_SECRET)
    steal(client, thief)
    other = another(client)
    sign_in(other, READ_SECRET)
    parts, heard = client.app.state.service_state, []  # type: ignore[attr-defined]
    listener = threading.Thread(target=lambda: heard.append(thief.get("/events", headers={"accept": "*/*"})))
    listener.start()
    rest = threading.Event()
    while not parts.listeners.count and listener.is_alive():
        rest.wait(0.01)

    reply = send(client, "/sign-out")
    at_once = thief.get("/studies")
    listener.join(LIMIT_S)

    assert (303, "/sign-in") == (reply.status_code, reply.headers["location"])
    assert "Max-Age=0" in reply.headers["set-cookie"]
    assert (303, "/sign-in?next=%2Fstudies&ended=1") == (at_once.status_code, at_once.headers["location"])
    assert "Max-Age=0" in at_once.headers["set-cookie"]
    assert "has ended" in thief.get(at_once.headers["location"]).text
    assert not listener.is_alive()
    assert heard[0].text.startswith("id: ")
    assert 401 == thief.get("/events", headers={"accept": "*/*"}).status_code
    assert 200 == other.get("/studies").status_code


def test_a_session_is_over_by_its_age_and_when_it_is_idle(client: TestClient, tmp_path: Path) -> None:
    """A session ends at its age and when idle, whatever the browser keeps; one in use goes on."""
    database = Database.open(f"sqlite:///{tmp_path / 'service.sqlite3'}")
    for column, age_s in ((page_sessions.c.created_unix_s, 12 * 3600 + 1), (page_sessions.c.seen_unix_s, 2 * 3600 + 1)):
        assert 303 == sign_in(client, READ_SECRET)
        assert 200 == client.get("/studies").status_code
        with database.writing() as connection:
            connection.execute(update(page_sessions).values({column.name: column - age_s}))

        assert (303, True) == ((reply := client.get("/studies")).status_code, "ended=1" in reply.headers["location"])
    database.close()


def test_a_revoked_token_ends_its_sessions(client: TestClient) -> None:
    """At once."""
    body = {"name": "reader", "scopes": ["read"]}
    created = client.post("/v1/tokens", json=body, headers=bearer(ADMIN_SECRET)).json()
    assert 303 == sign_in(client, created["secret"])
    assert 200 == client.get("/studies").status_code

    client.delete(f"/v1/tokens/{created['id']}", headers=bearer(ADMIN_SECRET))

    assert 303 == client.get("/studies").status_code


def test_a_changed_setting_ends_the_sessions_of_its_token(client: TestClient, tmp_path: Path) -> None:
    """A changed setting ends its token's sessions, and the same setting keeps them over a restart."""
    assert 303 == sign_in(client, READ_SECRET)
    cookie = {"cookie": f"{NAME}={client.cookies[NAME]}"}

    for secret, expected in ((READ_SECRET, 200), ("another-read-secret-of-these", 303)):
        app = application_with_pages(tmp_path, read_token=secret)
        with TestClient(app, base_url=HERE, headers={**BROWSER, **cookie}, follow_redirects=False) as later:
            assert expected == later.get("/studies").status_code


def test_a_new_sign_in_ends_the_session_before(client: TestClient, thief: TestClient) -> None:
    """A cookie that was there before a sign-in has no effect after it."""
    sign_in(client, READ_SECRET)
    steal(client, thief)

    assert 303 == sign_in(client, ADMIN_SECRET)

    assert [200, 303] == [someone.get("/studies").status_code for someone in (client, thief)]


def test_a_cookie_that_somebody_planted_is_not_kept(client: TestClient, thief: TestClient) -> None:
    """Another port can set our cookie: it is over after the sign-in, and never becomes the session's id."""
    planted = new_secret()
    thief.headers["cookie"] = f"{NAME}={planted}"

    assert 303 == thief.get("/studies").status_code
    reply = thief.post("/sign-in", data={"token": READ_SECRET, "form_key": FORM_KEY}, headers=FORM)

    assert planted not in reply.headers["set-cookie"]
    assert 303 == thief.get("/studies").status_code


@pytest.mark.parametrize("form_key", ["", "short", FORM_KEY + "x"])
def test_a_browser_without_a_key_is_asked_for_its_token(form_key: str, client: TestClient) -> None:
    """The form is sent again as it was, with the token that signed in; another one does not do."""
    assert 303 == sign_in(client, ADMIN_SECRET, form_key=form_key)
    form = {"name": 'a "name" <b>', "scope": ["read", "report"], "form_key": form_key}

    refused = client.post("/tokens", data=form, headers=FORM)
    fields = Page.of(refused.text).all("input")
    again = {"name": html.unescape(str(fields[0].attributes["value"])), "scope": ["read", "report"]}
    wrong = [
        client.post("/tokens", data={**again, "own_token": token}, headers=FORM)
        for token in (READ_SECRET, "x" * 30, "é" * 30)
    ]
    before = tokens_of(client)
    done = client.post("/tokens", data={**again, "own_token": ADMIN_SECRET}, headers=FORM)

    assert (403, "/tokens") == (refused.status_code, Page.of(refused.text).all("form")[1].attributes["action"])
    names = ["name", "scope", "scope", "own_token"]
    assert names == [field.attributes["name"] for field in fields]
    assert "<b>" not in refused.text
    assert [(403, True)] * 3 == [(reply.status_code, "not the token" in reply.text) for reply in wrong]
    assert ([], 201, ['a "name" <b>']) == (before, done.status_code, tokens_of(client))
    assert ADMIN_SECRET not in done.text


def test_a_form_with_a_token_in_its_header_needs_no_key(client: TestClient) -> None:
    """A browser sends none by itself; a token that is sent holds before a cookie."""
    sign_in(client, READ_SECRET)

    reply = client.post("/tokens", data={"name": "x", "scope": "read"}, headers={**FORM, **bearer(ADMIN_SECRET)})

    assert 201 == reply.status_code


def test_an_admin_sees_signed_in_browsers_and_ends_a_session(client: TestClient, thief: TestClient) -> None:
    """The list has name and age of each session and marks one's own; neither ids nor hashes are shown."""
    reader = another(client)
    sign_in(reader, READ_SECRET)
    sign_in(client, ADMIN_SECRET)
    page = client.get("/tokens").text
    handles = dict(re.findall(r"<bdi>setting:(\w+)</bdi></th><td[^>]*><code>(\w{16})</code>", page))
    metrics = client.get("/metrics", headers=bearer(ADMIN_SECRET)).text

    ended = send(client, f"/tokens/sessions/{handles['read']}/end")
    again = send(client, f"/tokens/sessions/{handles['read']}/end")

    assert {"read", "admin"} == set(handles)
    assert "ringtune_page_sessions 2.0" in metrics
    assert 1 == page.count("this browser")
    assert [] == [each for each in (client.cookies[NAME], reader.cookies[NAME]) if each in page]
    assert [303, 404] == [ended.status_code, again.status_code]
    assert [303, 200] == [someone.get("/studies").status_code for someone in (reader, client)]


@pytest.mark.parametrize("forwarded", [True, False])
def test_over_tls_the_cookie_is_bound_to_this_host(forwarded: bool, tmp_path: Path) -> None:
    """Our own TLS, or a proxy's that says so; then the cookie without the prefix is nobody's."""
    base, headers = (HERE, {"x-forwarded-proto": "https"}) if forwarded else (TLS, {})
    app = application_with_pages(tmp_path)
    with TestClient(app, base_url=base, headers={**BROWSER, **headers}, follow_redirects=False) as client:
        form = {"token": READ_SECRET, "form_key": FORM_KEY}
        cookie = client.post("/sign-in", data=form, headers={"origin": base}).headers["set-cookie"]
        name, value = cookie.partition(";")[0].split("=")
        client.cookies.clear()
        replies = [client.get("/studies", headers={"cookie": f"{each}={value}"}) for each in (SECURE_NAME, NAME)]

    assert SECURE_NAME == name
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert [200, 303] == [reply.status_code for reply in replies]


def test_a_session_whose_use_cannot_be_noted_opens_pages(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that takes no writes, or not soon, still shows its pages."""
    sessions = client.app.state.service_state.service.page_sessions  # type: ignore[attr-defined]
    tried, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def locked(_session_id: str) -> None:
        tried.set()
        go_on.wait(LIMIT_S)
        ended.set()
        raise StoreUnavailable("the database is locked")

    browsers = [client, *(another(client) for _ in range(LOOKUPS + 1))]
    for browser in browsers:
        assert 303 == sign_in(browser, READ_SECRET)
    monkeypatch.setattr(sessions, "touch", locked)
    monkeypatch.setattr("ringtune.service.domain.page_sessions.TOUCHED_S", -1.0)

    statuses = [browser.get("/studies").status_code for browser in browsers * 2]

    assert {200} == set(statuses)
    assert tried.wait(LIMIT_S)
    assert not ended.is_set()
    go_on.set()


def test_a_sign_in_is_known_and_a_guess_is_not(client: TestClient, thief: TestClient) -> None:
    """No text that is not a session opens a page, however it is written."""
    sign_in(client, READ_SECRET)
    value = client.cookies[NAME]
    guesses = (
        new_secret(),
        value[:-1],
        f"{value}x",
        value.swapcase(),
        READ_SECRET,
        ADMIN_SECRET,
        "x" * 9000,
        "%00",
        "é",
    )

    for guess in guesses:
        reply = thief.get("/studies", headers={"cookie": f"{NAME}={guess}".encode()})
        assert 303 == reply.status_code, guess
    assert PAGES_OPEN == {("GET", "/sign-in"), ("POST", "/sign-in")}
    assert 200 == client.get("/studies").status_code
