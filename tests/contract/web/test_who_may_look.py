# SPDX-License-Identifier: Apache-2.0
"""Signing in, and a browser's rights then: deny by default holds for pages, and no other site can send our forms."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.contract.service.applications import ADMIN_SECRET, READ_SECRET, bearer
from tests.contract.web.applications import BROWSER, FORM, FORM_KEY, HERE, application_with_pages, send, sign_in
from tests.unit.dashboards.pages import Page


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A browser before an application with tokens; it follows no redirect by itself."""
    with TestClient(application_with_pages(tmp_path), base_url=HERE, headers=BROWSER, follow_redirects=False) as made:
        yield made


def test_strangers_are_led_to_the_sign_in_and_back(client: TestClient) -> None:
    """The page that was asked for comes after the sign-in, with its parameters."""
    reply = client.get("/studies?q=resnet&page=2")
    page = client.get(reply.headers["location"])
    signed_in = client.post("/sign-in", data={"token": READ_SECRET, "next": "/studies?q=resnet&page=2"}, headers=FORM)

    assert (303, "/sign-in?next=%2Fstudies%3Fq%3Dresnet%26page%3D2") == (reply.status_code, reply.headers["location"])
    assert 'name="next" value="/studies?q=resnet&amp;page=2"' in page.text
    assert (303, "/studies?q=resnet&page=2") == (signed_in.status_code, signed_in.headers["location"])
    assert 200 == client.get("/studies").status_code


def test_a_page_with_a_long_address_is_found_again_after_the_sign_in(client: TestClient) -> None:
    """A comparison of six studies, or a search for the longest text; a path that no page has is forgotten."""
    compared = "/compare?" + "&".join(f"study={number:032x}" for number in range(6))
    searched = "/studies?q=" + "%E2%82%AC" * 200
    endless = "/studies?q=" + "x" * 5000

    pages = [client.get(client.get(wanted).headers["location"]) for wanted in (compared, searched, endless)]

    assert [200, 200, 200] == [page.status_code for page in pages]
    found = [Page.of(page.text).all("input")[1].attributes.get("value") for page in pages]
    assert [compared, searched, "/"] == found


def test_open_forms_are_small(client: TestClient) -> None:
    """A sign-in has room for the longest token and address; a larger one is refused before there is a token."""
    longest = {"token": "/" * 256, "next": "/" * 4000}

    def parts(count: int) -> Iterator[bytes]:
        for _ in range(count):
            yield b"token=" + b"x" * 1018

    taken = client.post("/sign-in", data=longest, headers=FORM)
    kind = {**FORM, "content-type": "application/x-www-form-urlencoded"}
    refused = client.post("/sign-in", content=parts(17), headers=kind)
    health = client.request("GET", "/healthz", content=b"x" * (17 << 10))

    assert [401, 413, 413] == [taken.status_code, refused.status_code, health.status_code]
    assert "16384 bytes" in refused.text


@pytest.mark.parametrize("secret", ["", "wrong", "rt_0123456789abcdef_" + "x" * 43, "é" * 20, "a b", READ_SECRET[:-1]])
def test_a_wrong_token_is_answered_with_the_remedy(secret: str, client: TestClient) -> None:
    """The token is not repeated on the page, and not kept."""
    reply = client.post("/sign-in", data={"token": secret}, headers=FORM)

    assert 401 == reply.status_code
    assert "ask an operator" in reply.text
    assert 'type="password" required' in reply.text
    assert not [e for e in Page.of(reply.text).all("input") if e.attributes.get("value") == secret != ""]
    assert "set-cookie" not in reply.headers


def test_a_token_that_may_only_report_does_not_open_the_pages(client: TestClient) -> None:
    """The sign-in names the missing scope."""
    body = {"name": "job", "scopes": ["report"]}
    created = client.post("/v1/tokens", json=body, headers=bearer(ADMIN_SECRET)).json()

    reply = client.post("/sign-in", data={"token": created["secret"]}, headers=FORM)

    assert 403 == reply.status_code
    assert "scope read" in reply.text


def test_tokens_are_for_admins(client: TestClient) -> None:
    """A reader finds neither the page nor a link to it; an admin creates and revokes."""
    assert 303 == sign_in(client, READ_SECRET)
    assert 403 == client.get("/tokens").status_code
    assert 403 == send(client, "/tokens", name="x", scope="read").status_code
    assert "/tokens" not in client.get("/studies").text

    assert 303 == sign_in(client, ADMIN_SECRET)
    created = send(client, "/tokens", name="jobs", scope=["read", "report"])
    (secret,) = re.findall(r"rt_[0-9a-f]{16}_[\w-]{43}", created.text)
    token_id = secret.split("_")[1]
    before = client.get("/v1/studies", headers=bearer(secret)).status_code
    revoked = send(client, f"/tokens/{token_id}/revoke")

    assert (201, 200, 303) == (created.status_code, before, revoked.status_code)
    assert secret not in client.get("/tokens").text
    assert "no-store" == created.headers["cache-control"]


def test_an_admin_says_how_a_token_counts_and_deletes_its_results(client: TestClient) -> None:
    """The page shows each token's way of counting, and how many results were deleted."""
    sign_in(client, ADMIN_SECRET)
    created = send(client, "/tokens", name="team", scope=["read", "report"], many_jobs="yes").text
    token_id = re.findall(r"rt_([0-9a-f]{16})_", created)[0]

    changed = send(client, f"/tokens/{token_id}/counting", many_jobs="")
    deleted = send(client, f"/tokens/{token_id}/delete-results")

    assert "each job" in created
    assert (303, 200) == (changed.status_code, deleted.status_code)
    assert f'/tokens/{token_id}/counting">once<' in deleted.text
    assert "0 results were deleted" in deleted.text


def test_a_token_without_a_name_or_scope_is_not_created(client: TestClient) -> None:
    """The form comes back with the given values, and says the allowed ones."""
    sign_in(client, ADMIN_SECRET)

    nameless = send(client, "/tokens", name="", scope="read")
    scopeless = send(client, "/tokens", name="kept name")

    assert (422, 422) == (nameless.status_code, scopeless.status_code)
    assert 'value="kept name"' in scopeless.text
    assert 0 == len(client.get("/v1/tokens", headers=bearer(ADMIN_SECRET)).json()["items"])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://evil.example"},
    ],
)
def test_no_other_site_sends_our_forms(headers: dict[str, str], client: TestClient) -> None:
    """Not even with a cookie that the browser should not have sent, and not to sign somebody in."""
    sign_in(client, ADMIN_SECRET)

    for path in (
        "/tokens",
        "/sign-in",
        "/sign-out",
        "/tokens/0123456789abcdef/revoke",
        "/tokens/0123456789abcdef/delete-results",
    ):
        form = {"name": "x", "scope": "admin", "token": ADMIN_SECRET, "form_key": FORM_KEY}
        reply = client.post(path, data=form, headers=headers)
        assert 403 == reply.status_code, path
        assert "set-cookie" not in reply.headers
    assert [] == client.get("/v1/tokens", headers=bearer(ADMIN_SECRET)).json()["items"]


def test_signing_in_leads_nowhere_else(client: TestClient) -> None:
    """A link to the sign-in cannot send the browser to another site."""
    reply = client.post("/sign-in", data={"token": READ_SECRET, "next": "//evil.example"}, headers=FORM)

    assert (303, "/studies") == (reply.status_code, reply.headers["location"])


def test_without_a_token_there_is_no_sign_in(tmp_path: Path) -> None:
    """Loopback is open; the first token closes it, and the page that made it leads to the sign-in."""
    app = application_with_pages(tmp_path, has_tokens=False)
    with TestClient(app, base_url=HERE, headers=BROWSER, follow_redirects=False) as client:
        assert 200 == client.get("/studies").status_code
        assert "/studies" == client.get("/sign-in").headers["location"]
        created = client.post("/tokens", data={"name": "operator", "scope": "admin"}, headers=FORM)
        assert 201 == created.status_code
        assert "Sign in" in created.text

    with TestClient(application_with_pages(tmp_path, has_tokens=False), base_url=HERE, headers=BROWSER) as client:
        assert "Sign in" in client.get("/studies").text


def test_an_open_service_answers_to_loopback_names_alone(tmp_path: Path) -> None:
    """A page elsewhere that has a name for 127.0.0.1 sees no study, and no redirect into one."""
    app = application_with_pages(tmp_path, has_tokens=False)
    with TestClient(app, base_url="http://evil.example", headers=BROWSER, follow_redirects=False) as client:
        assert 421 == client.get("/studies").status_code
        assert 200 == client.get("/sign-in").status_code
        origin = {"origin": "http://evil.example"}
        assert 421 == client.post("/tokens", data={"name": "x", "scope": "admin"}, headers=origin).status_code
