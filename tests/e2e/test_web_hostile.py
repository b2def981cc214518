# SPDX-License-Identifier: Apache-2.0
"""Names out of reports cannot become script: 500 of them, in every view, in a real browser."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.e2e.browsing import CHROMIUM, FLAGS, Visit, visiting
from tests.e2e.hostile_studies import all_hostile_names, write_hostile_database
from tests.e2e.web_service import WebService, web_service

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: Debian's package of that name is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: the wheel of that name is not installed")

NAMES = all_hostile_names()
FOREIGN = """() => {
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const isOurs = (script) => script.type === "application/json" || script.src.startsWith(`${location.origin}/static/`);
  const hasHandler = (one) => Array.from(one.attributes).some((attribute) => /^on/i.test(attribute.name));
  return [
    ...Array.from(document.scripts).filter((script) => !isOurs(script)),
    ...all("iframe, object, embed, base, style, form[action^='http'], meta[http-equiv], svg a, [data-figure] image"),
    ...all("*").filter(hasHandler),
    ...all("a").filter((link) => link.origin !== location.origin),
  ].map((one) => one.outerHTML.slice(0, 300));
}"""
COMPARED = 6
SHORT_EVERY = 25
"""In the short test, of the views of one name."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start the browser once."""
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WebService, list[str]]]:
    """A service in which everything has a hostile name, and the ids of its studies."""
    folder = tmp_path_factory.mktemp("hostile")
    study_ids = write_hostile_database(folder, NAMES)
    with web_service(folder) as running:
        yield running, study_ids


def check(seen: Visit, url: str) -> None:
    """Open a view; nothing ran, nothing foreign is in it, and the title is ours."""
    seen.go(url)
    page = seen.page
    assert [] == page.evaluate(FOREIGN), url
    assert "undefined" == page.evaluate("typeof window.hacked"), url
    assert page.title().endswith("· ringtune"), url
    assert ([], []) == (seen.complaints, seen.violations), url
    assert seen.overflow <= 0, url


def test_lists_of_hostile_names_run_nothing(browser: Any, hostile: tuple[WebService, list[str]]) -> None:
    """All 500, in every list, and where hardware and models are counted."""
    service, _ = hostile
    with visiting(browser) as seen:
        for page in range(1, 11):
            check(seen, f"{service.url}/studies?page={page}")
            assert 50 == seen.page.locator("tbody tr").count()
        check(seen, f"{service.url}/hardware")
        check(seen, f"{service.url}/hardware?q=script")
        check(seen, f"{service.url}/recommendations")
        assert [] == [url for url in seen.requests if not url.startswith((service.url, "data:", "blob:"))]


def test_a_study_of_hostile_values_runs_nothing(browser: Any, hostile: tuple[WebService, list[str]]) -> None:
    """In tables, in figures and their hover texts, in settings to paste, in runs and reasons."""
    service, study_ids = hostile
    with visiting(browser) as seen:
        check(seen, f"{service.url}/studies/{study_ids[0]}")
        page = seen.page
        assert page.locator("[data-figure] svg.main-svg").count() >= 2
        for summary in page.locator("summary").all():
            summary.click()
        for figure in page.locator("[data-figure]").all():
            figure.scroll_into_view_if_needed()
            box = figure.bounding_box()
            for share in (0.2, 0.5, 0.8):
                page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        assert [] == page.evaluate(FOREIGN)
        assert ([], []) == (seen.complaints, seen.violations)


def look_at_each(browser: Any, service: WebService, study_ids: Sequence[str], numbers: Sequence[int]) -> None:
    """Open what is of one name: its study, its model on all hardware, comparisons, questions, searches, wrong paths."""
    with visiting(browser) as seen:
        for number in numbers:
            name = NAMES[number][:200]
            compared = [study_ids[(number + shift) % len(study_ids)] for shift in range(COMPARED)]
            for path in (
                f"/studies/{study_ids[number]}",
                f"/hardware?model={number // 2:064x}",
                f"/compare?{urlencode([('study', study_id) for study_id in compared])}",
                f"/recommendations?{urlencode({'model': name, 'world_size': 2, 'target': name})}",
                f"/studies?{urlencode({'q': name, 'target': name, 'sort': 'created'})}",
                f"/studies?{urlencode({'sort': name, 'finding': name})}",
                f"/hardware?{urlencode({'q': name, 'model': name})}",
                f"/{quote(name, safe='')}",
            ):
                check(seen, f"{service.url}{path}")


def test_views_of_a_hostile_name_run_nothing(browser: Any, hostile: tuple[WebService, list[str]]) -> None:
    """Every twenty-fifth name, in each view that is about one."""
    service, study_ids = hostile

    look_at_each(browser, service, study_ids, range(1, len(NAMES), SHORT_EVERY))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_views_of_every_hostile_name_run_nothing(browser: Any, hostile: tuple[WebService, list[str]]) -> None:
    """All 500."""
    service, study_ids = hostile

    look_at_each(browser, service, study_ids, range(1, len(NAMES)))


def wait_for_the_lock(service: WebService) -> None:
    """Wait until the service has noticed that there are tokens: it remembers for a moment that it was open."""
    end_s = time.monotonic() + 30.0
    while service.client.get("/v1/studies").status_code != 401:
        assert time.monotonic() < end_s, "it is still open"


def test_hostile_names_of_tokens_run_nothing(browser: Any, tmp_path: Path) -> None:
    """In the list of tokens, and where one was created."""
    with web_service(tmp_path) as service, visiting(browser) as seen:
        page = seen.go(f"{service.url}/tokens").page
        page.get_by_label("Who or what uses it").fill(NAMES[20])
        page.get_by_role("button", name="Create").click()
        secret = page.locator("#secret").inner_text()
        token = {"Authorization": f"Bearer {secret}"}
        for name in (name for name in NAMES[:60] if name.isprintable() and len(name) <= 200):
            body = {"name": name, "scopes": ["read"]}
            assert 201 == service.client.post("/v1/tokens", json=body, headers=token).status_code
        wait_for_the_lock(service)
        seen.go(f"{service.url}/sign-in?next={quote(NAMES[10])}")
        page.get_by_role("textbox", name="Token").fill(secret)
        page.get_by_role("button", name="Sign in").click()

        check(seen, f"{service.url}/tokens")

        assert page.locator("tbody tr").count() > 40
