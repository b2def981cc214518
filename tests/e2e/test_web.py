# SPDX-License-Identifier: Apache-2.0
"""The web pages in a real browser, before the real service that real tuning runs have filled."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.service.applications import ADMIN_SECRET, READ_SECRET
from tests.e2e.browsing import LIMIT_MS, visiting
from tests.e2e.web_service import WebService, filled_service, web_service
from tests.e2e.web_views import views_of

AT_REST = "#live:is([data-state=on], [data-state=idle])"
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebService]:
    """A service without tokens, and so open, with studies in it."""
    with filled_service(tmp_path_factory.mktemp("web")) as running:
        yield running


@pytest.fixture(scope="module")
def tuned(service: WebService) -> str:
    """The address of the study with the most jobs."""
    return service.url + views_of(service.client)["study"]


def test_figures_are_drawn_in_the_page_s_colours(browser: Any, tuned: str) -> None:
    """All of the report's that the study's results allow, and again when the scheme changes."""
    with visiting(browser) as seen:
        seen.go(tuned)
        names = seen.page.eval_on_selector_all("[data-plot]", "all => all.map((one) => one.dataset.plot)")
        drawn = seen.page.locator("[data-figure] svg.main-svg:first-of-type").count()

        assert {"figure-convergence", "figure-parallel", "figure-sensitivity", "figure-distribution"} <= set(names)
        assert len(names) == drawn
        ink = "getComputedStyle(document.querySelector('.xtitle')).fill"
        assert "rgb(22, 32, 42)" == seen.page.evaluate(ink)
        seen.page.emulate_media(color_scheme="dark")
        seen.page.wait_for_function(f"() => {ink} === 'rgb(230, 235, 240)'", timeout=LIMIT_MS)


def test_a_study_follows_what_its_job_reports(browser: Any, service: WebService) -> None:
    """New results come by themselves: words, tables, the first figures; opened parts stay open, focus stays."""
    study_id, job_id = service.study("3", "c"), str(uuid.uuid4())
    with visiting(browser) as seen:
        page = seen.go(f"{service.url}/studies/{study_id}").page
        page.wait_for_selector(AT_REST, timeout=LIMIT_MS)
        assert 0 == page.locator("[data-figure]").count()

        service.report(study_id, phase="baseline", job_id=job_id)
        page.wait_for_selector("[data-live=jobs] tbody tr", timeout=LIMIT_MS)
        page.wait_for_selector("[data-figure] svg.main-svg", timeout=LIMIT_MS)
        page.locator("#figure-convergence-table > summary").click()
        before = page.locator("#figure-convergence-table tbody tr").count()
        page.locator(".brand").focus()
        renewed = int(page.evaluate("document.documentElement.dataset.renewed"))
        service.report(study_id, job_id=job_id, step_ms={"median": 8.0, "mad": 0.1, "mean": 8.1})
        page.wait_for_function(f"() => Number(document.documentElement.dataset.renewed) > {renewed}", timeout=LIMIT_MS)

        assert (1, 2) == (before, page.locator("#figure-convergence-table tbody tr").count())
        assert page.locator("#figure-convergence-table").get_attribute("open") is not None
        assert "2 of 2 results" in page.locator("[data-live=results]").inner_text().replace("\n", " ")
        assert "ringtune" == page.evaluate("document.activeElement.textContent.trim()")
        assert ([], []) == (seen.complaints, seen.violations)


def test_results_of_other_studies_are_left_alone(browser: Any, service: WebService) -> None:
    """A page is renewed for its own study's results only."""
    mine, other = service.study("4", "c"), service.study("5", "c")
    with visiting(browser) as seen:
        page = seen.go(f"{service.url}/studies/{mine}").page
        page.wait_for_selector(AT_REST, timeout=LIMIT_MS)

        service.report(other)
        service.report(mine)
        page.wait_for_selector("html[data-renewed]", timeout=LIMIT_MS)

        assert "1" == page.evaluate("document.documentElement.dataset.renewed")
        assert "1 of 1 result" in page.locator("[data-live=results]").inner_text()


def test_what_is_reported_while_a_page_loads_is_not_missed(browser: Any, service: WebService) -> None:
    """After the page was made, and before its script listens."""
    study_id = service.study("6", "c")

    def report_first(route: Any) -> None:
        service.report(study_id)
        route.continue_()

    with visiting(browser) as seen:
        seen.page.route("**/plotly.*", report_first)

        page = seen.go(f"{service.url}/studies/{study_id}").page
        page.wait_for_selector("[data-live=jobs] tbody tr", timeout=LIMIT_MS)

        assert "1 of 1 result" in page.locator("[data-live=results]").inner_text()
        assert ([], []) == (seen.complaints, seen.violations)


def test_a_page_stays_while_the_service_is_busy(browser: Any, service: WebService) -> None:
    """A refusal to listen or to renew is no end: both are tried again, and the page stays."""
    study_id = service.study("7", "c")
    refused: list[str] = []

    def refuse_once(route: Any) -> None:
        kind = "events" if "/events" in route.request.url else "page"
        if kind in refused or (kind == "page" and not seen.page.locator("#live").count()):
            route.continue_()
        else:
            refused.append(kind)
            route.fulfill(status=503, body="busy")

    with visiting(browser) as seen:
        page = seen.go(f"{service.url}/studies/{study_id}").page
        page.wait_for_selector(AT_REST, timeout=LIMIT_MS)
        page.route(f"**/studies/{study_id}", refuse_once)
        page.route("**/events**", refuse_once)
        page.evaluate("window.isKept = true")
        page.evaluate("dispatchEvent(new Event('pagehide'))")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        service.report(study_id)
        page.wait_for_selector("[data-live=jobs] tbody tr", timeout=LIMIT_MS)
        page.wait_for_selector(AT_REST, timeout=LIMIT_MS)

        assert {"events", "page"} == set(refused)
        assert page.evaluate("window.isKept")


def test_studies_are_searched_sorted_chosen_and_compared(browser: Any, service: WebService) -> None:
    """A keyboard alone is enough to search, sort, choose and compare studies."""
    with visiting(browser) as seen:
        page = seen.go(f"{service.url}/studies").page
        page.keyboard.press("Tab")
        assert "Skip to the content" == page.evaluate("document.activeElement.textContent")
        page.locator("#q").focus()
        page.keyboard.type("RESNET")
        page.keyboard.press("Enter")
        page.wait_for_url("**q=RESNET**")
        assert ["resnet50", "resnet50"] == page.locator("tbody th").all_inner_texts()

        page.get_by_role("link", name="Hardware", exact=True).last.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**sort=-hardware**")
        assert "ascending" == page.locator("th[aria-sort]").get_attribute("aria-sort")
        for box in page.locator("tbody input[type=checkbox]").all():
            box.focus()
            page.keyboard.press("Space")
        page.get_by_role("button", name="Compare the chosen studies").press("Enter")
        page.wait_for_url("**/compare?**")

        assert 2 == page.locator(".side-by-side thead th").count()
        assert [] == seen.complaints


def test_settings_are_copied(browser: Any, tuned: str) -> None:
    """The clipboard gets the settings as they are shown."""
    with visiting(browser) as seen:
        page = seen.go(tuned).page
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])

        page.locator("[data-copy='snippet-1-text']").click()
        page.wait_for_function("() => document.querySelector('[data-copy]').textContent.startsWith('Copied')")

        copied = page.evaluate("navigator.clipboard.readText()")
        assert page.locator("#snippet-1-text").text_content() == copied
        assert "export RINGTUNE_FUSION_BYTES=" in copied


def test_somebody_signs_in_looks_and_signs_out(browser: Any, tmp_path: Path) -> None:
    """The page that was asked for comes after the sign-in; live updates work; an admin makes a token."""
    tokens = {"RINGTUNE_SERVICE_ADMIN_TOKEN": ADMIN_SECRET, "RINGTUNE_SERVICE_READ_TOKEN": READ_SECRET}
    with web_service(tmp_path, tokens, ADMIN_SECRET) as service, visiting(browser) as seen:
        study_id = service.study("1", "c")
        page = seen.go(f"{service.url}/studies/{study_id}").page
        page.get_by_role("textbox", name="Token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        assert "not known" in page.get_by_role("alert").inner_text()
        page.get_by_role("textbox", name="Token").fill(ADMIN_SECRET)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"**/studies/{study_id}")
        page.wait_for_selector(AT_REST, timeout=LIMIT_MS)

        assert "" == page.evaluate("document.cookie")
        page.get_by_role("link", name="Tokens").click()
        page.get_by_label("Who or what uses it").fill("jobs")
        page.get_by_role("button", name="Create").click()
        assert page.locator("#secret").inner_text().startswith("rt_")
        page.get_by_role("button", name="Revoke jobs").click()
        page.wait_for_selector("text=revoked")
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/sign-in")
        page.goto(f"{service.url}/studies")

        assert page.url.startswith(f"{service.url}/sign-in")
        assert ([], []) == (seen.complaints, seen.violations)


def test_without_scripts_the_pages_can_be_read(browser: Any, tuned: str) -> None:
    """Tables have the values of the figures."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()

    page.goto(tuned)

    assert "Without JavaScript" in page.locator("noscript").first.inner_text()
    assert page.locator("#figure-convergence-table tbody tr").count() > 10
    context.close()
