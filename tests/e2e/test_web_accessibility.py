# SPDX-License-Identifier: Apache-2.0
"""Every view of the web pages under axe: light and dark, on a screen and on a phone; none is wider than its window."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ringtune.dashboards.web.views import ROUTERS
from tests.contract.service.applications import ADMIN_SECRET, READ_SECRET
from tests.e2e.browsing import Visit, visiting
from tests.e2e.web_service import WebService, filled_service, web_service
from tests.e2e.web_views import LOOKS, views_of

pytestmark = pytest.mark.timeout(600)
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe: pip install axe-playwright-python")

TOKENS = {"RINGTUNE_SERVICE_ADMIN_TOKEN": ADMIN_SECRET, "RINGTUNE_SERVICE_READ_TOKEN": READ_SECRET}
SHORT_LOOKS = ("desktop", "phone_dark")
"""Each colour scheme and each width is in one of them. A page that is open turns from one to the other."""
EACH_LOOKS = [SHORT_LOOKS, *(pytest.param((look,), marks=pytest.mark.long) for look in LOOKS)]
"""Looks of a test: in the long ones every page is loaded in its look."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebService]:
    """A service without tokens, and so open, with studies in it."""
    with filled_service(tmp_path_factory.mktemp("web")) as running:
        yield running


@dataclass
class Inspection:
    """Pages that are looked at one after the other, each in all looks.

    Attributes:
        seen: The open page.
        looks: Names of the looks; the page is in the first.
    """

    seen: Visit
    looks: Sequence[str]

    def check(self, name: str) -> None:
        """Require of the open page, in each look, no violations of accessibility or policy, and that it fits."""
        for number, look in enumerate(self.looks):
            if number:
                self.seen.turn_to(*LOOKS[look])
            found = axe.Axe().run(self.seen.page)
            assert 0 == found.violations_count, (name, look, found.generate_report())
            assert ([], []) == (self.seen.complaints, self.seen.violations), (name, look)
            assert self.seen.overflow <= 0, (name, look)
        self.looks = self.looks[::-1]  # the next page is loaded in the look that this one is in


@contextmanager
def inspecting(browser: Any, looks: Sequence[str]) -> Iterator[Inspection]:
    """Open an empty page in the first of some looks."""
    scheme, size = LOOKS[looks[0]]
    with visiting(browser, scheme=scheme, size=size) as seen:
        yield Inspection(seen, looks)


@pytest.mark.parametrize("looks", EACH_LOOKS, ids="-".join)
def test_every_view_is_sound(looks: Sequence[str], browser: Any, service: WebService) -> None:
    """No request goes elsewhere."""
    with inspecting(browser, looks) as inspection:
        seen = inspection.seen
        for name, path in views_of(service.client).items():
            seen.go(service.url + path)
            inspection.check(name)
        assert [] == [url for url in seen.requests if not url.startswith((service.url, "data:", "blob:"))]


@pytest.mark.parametrize("looks", EACH_LOOKS, ids="-".join)
def test_what_a_service_with_tokens_shows_is_sound(looks: Sequence[str], browser: Any, tmp_path: Path) -> None:
    """Signing in, refusals, an admin's tokens, and every view of a service without data."""
    with web_service(tmp_path, TOKENS, ADMIN_SECRET) as service, inspecting(browser, looks) as inspection:
        seen, check = inspection.seen, inspection.check
        page = seen.go(f"{service.url}/tokens").page
        check("sign-in")
        sign_in(page, "wrong")
        check("sign-in, a wrong token")
        seen.go(f"{service.url}/sign-in?ended=1")
        check("sign-in, ended")
        sign_in(page, READ_SECRET)
        for path in ("/studies", "/hardware", "/recommendations", "/compare", "/tokens"):
            seen.go(service.url + path)
            check(f"{path}, empty or refused")
        press(page, "Sign out")
        sign_in(page, ADMIN_SECRET)
        seen.go(f"{service.url}/tokens")
        page.get_by_label("Who or what uses it").fill("nobody")
        for box in page.get_by_role("checkbox").all():
            box.uncheck()
        press(page, "Create")
        check("tokens, none created")
        page.get_by_role("checkbox").first.check()
        press(page, "Create")
        assert page.locator("#secret").inner_text().startswith("rt_")
        check("tokens, one created")
        press(page, "Revoke nobody")
        check("tokens, one revoked")
        page.evaluate("localStorage.clear()")
        press(page, "Sign out")
        check("a form that is not confirmed")
        page.get_by_label("Your token").fill("wrong")
        press(page, "Go on")
        check("a form that is not confirmed, a wrong token")
        page.get_by_label("Your token").fill(ADMIN_SECRET)
        press(page, "Go on")
        assert page.url.endswith("/sign-in")


def sign_in(page: Any, secret: str) -> None:
    """Give a token."""
    page.get_by_role("textbox", name="Token").fill(secret)
    press(page, "Sign in")


def press(page: Any, button: str) -> None:
    """Press a button, and wait for the page that comes then."""
    with page.expect_navigation():
        page.get_by_role("button", name=button).click()


def served_pages() -> list[str]:
    """Return the paths of pages that the routers serve: no sign-in, events, static files or tables as CSV."""
    routes = [route for router in ROUTERS for route in router.routes]
    paths = {route.path for route in routes if "GET" in route.methods}  # type: ignore[attr-defined]
    return sorted(path for path in paths - {"/", "/sign-in", "/events", "/static/{name}"} if not path.endswith(".csv"))


def test_no_view_is_forgotten(service: WebService) -> None:
    """Each page that the routers serve is among those that are looked at."""
    seen = {path.partition("?")[0] for path in views_of(service.client).values()}

    patterns = [re.sub(r"\{[^}]*\}", "[^/]+", path) for path in served_pages()]

    assert len(patterns) >= 6
    assert [] == [pattern for pattern in patterns if not any(re.fullmatch(pattern, path) for path in seen)]
