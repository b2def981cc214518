# SPDX-License-Identifier: Apache-2.0
"""Every view of the web pages under axe: light and dark, on a screen and on a phone; none is wider than its window."""

import re
from collections.abc import Iterator
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
SHORT_LOOKS = 2
"""Each colour scheme and each width is in one of them; the other two are long."""
EACH_LOOK = [
    pytest.param(look, marks=[] if number < SHORT_LOOKS else pytest.mark.long) for number, look in enumerate(LOOKS)
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebService]:
    """A service without tokens, and so open, with studies in it."""
    with filled_service(tmp_path_factory.mktemp("web")) as running:
        yield running


def check(seen: Visit, name: str) -> None:
    """The page that is open has no violations, of accessibility or of the policy, and fits its window."""
    found = axe.Axe().run(seen.page)
    assert 0 == found.violations_count, (name, found.generate_report())
    assert ([], []) == (seen.complaints, seen.violations), name
    assert seen.overflow <= 0, name


@pytest.mark.parametrize("look", EACH_LOOK)
def test_every_view_is_sound(look: str, browser: Any, service: WebService) -> None:
    """Nothing is asked for elsewhere."""
    scheme, size = LOOKS[look]
    with visiting(browser, scheme=scheme, size=size) as seen:
        for name, path in views_of(service.client).items():
            check(seen.go(service.url + path), name)
        assert [] == [url for url in seen.requests if not url.startswith((service.url, "data:", "blob:"))]


@pytest.mark.parametrize("look", EACH_LOOK)
def test_what_a_service_with_tokens_shows_is_sound(look: str, browser: Any, tmp_path: Path) -> None:
    """Signing in, refusals, an admin's tokens, and every view of a service that knows nothing yet."""
    scheme, size = LOOKS[look]
    with web_service(tmp_path, TOKENS, ADMIN_SECRET) as service, visiting(browser, scheme=scheme, size=size) as seen:
        page = seen.go(f"{service.url}/tokens").page
        check(seen, "sign-in")
        sign_in(page, "wrong")
        check(seen, "sign-in, a wrong token")
        check(seen.go(f"{service.url}/sign-in?ended=1"), "sign-in, ended")
        sign_in(page, READ_SECRET)
        for path in ("/studies", "/hardware", "/recommendations", "/compare", "/tokens"):
            check(seen.go(service.url + path), f"{path}, empty or refused")
        press(page, "Sign out")
        sign_in(page, ADMIN_SECRET)
        seen.go(f"{service.url}/tokens")
        page.get_by_label("Who or what uses it").fill("nobody")
        for box in page.get_by_role("checkbox").all():
            box.uncheck()
        press(page, "Create")
        check(seen, "tokens, none created")
        page.get_by_role("checkbox").first.check()
        press(page, "Create")
        assert page.locator("#secret").inner_text().startswith("rt_")
        check(seen, "tokens, one created")
        press(page, "Revoke nobody")
        check(seen, "tokens, one revoked")
        page.evaluate("localStorage.clear()")
        press(page, "Sign out")
        check(seen, "a form that is not confirmed")
        page.get_by_label("Your token").fill("wrong")
        press(page, "Go on")
        check(seen, "a form that is not confirmed, a wrong token")
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
