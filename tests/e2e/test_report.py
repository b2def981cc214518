# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: it draws every figure, makes no request, and runs no foreign script."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ringtune.tuner import RunSettings, SilentObserver, TuningRun, make_designer, open_log
from ringtune.tuner.simulator import Cluster, SimulatedTarget, described_job, parse_link
from tests.e2e.commands import run_ringtune
from tests.house.source_tree import REPOSITORY
from tests.unit.dashboards.hostile import hostile_log, hostile_names

SCREENSHOTS = REPOSITORY / "build" / "screenshots"
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1200, "height": 900}
LOADED_MS = 120_000


@dataclass
class Visit:
    """A page in the browser, and its actions."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of a tuning run on a simulated cluster, made by the command."""
    folder = tmp_path_factory.mktemp("report")
    target = SimulatedTarget(described_job("resnet50", None), Cluster(2, 2, 4, parse_link("10gbit")), seed=1)
    log = open_log(folder / "tuning.jsonl")
    settings = RunSettings(run_id="simulated", model_name="resnet50", max_samples=12)
    designer = make_designer("random", target.space(), 0)
    TuningRun(target, designer, settings, log, SilentObserver(), clock=lambda: target.now_s).run()
    log.close()
    made = run_ringtune("review", str(folder / "tuning.jsonl"), "--html", str(folder / "report.html"))
    assert 0 == made.returncode, made.stderr
    return folder / "report.html"


def visit(browser: Any, path: Path, *, scheme: str = "light", size: dict[str, int] | None = None) -> Visit:
    """Open a page and wait until its figures are drawn."""
    page = browser.new_page(color_scheme=scheme, viewport=size or DESKTOP)
    seen = Visit(page)
    page.on("console", lambda message: seen.complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn]", timeout=LOADED_MS)
    return seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_figure_is_drawn_without_errors_or_requests(browser: Any, report: Path, scheme: str) -> None:
    """In light and in dark; the ink differs, and a picture is kept."""
    seen = visit(browser, report, scheme=scheme)
    page = seen.page

    assert [] == seen.complaints
    assert [report.as_uri()] == [url for url in seen.requests if not url.startswith(("data:", "blob:"))]
    count = page.locator("[data-figure]").count()
    assert count >= 9
    assert count == page.locator("[data-figure] svg.main-svg:first-of-type").count() >= 9
    ink = page.evaluate("getComputedStyle(document.querySelector('.xtitle')).fill")
    assert {"light": "rgb(26, 29, 33)", "dark": "rgb(232, 235, 238)"}[scheme] == ink
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"report_{scheme}.png", full_page=True)
    page.close()


def test_a_keyboard_is_enough(browser: Any, report: Path) -> None:
    """The first stop skips to the verdict; a table opens with Enter."""
    page = visit(browser, report).page

    page.keyboard.press("Tab")
    assert "Skip to the verdict" == page.evaluate("document.activeElement.textContent")
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details[open] table").first.is_visible()
    page.close()


def test_it_fits_a_phone(browser: Any, report: Path) -> None:
    """No element makes the page itself scroll sideways."""
    page = visit(browser, report, size=PHONE).page

    overflow = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")

    assert overflow <= 0
    page.close()


def test_it_prints_black_on_white_from_a_dark_page(browser: Any, report: Path) -> None:
    """Text and figures; the PDF has several sheets."""
    page = visit(browser, report, scheme="dark").page

    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.wait_for_function("getComputedStyle(document.querySelector('.xtitle')).fill === 'rgb(26, 29, 33)'")

    assert "rgb(255, 255, 255)" == page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert page.pdf().count(b"/Type /Page\n") > 1
    page.close()


def test_hostile_names_run_nothing(browser: Any, tmp_path: Path) -> None:
    """Five hundred of them, in every place of a name: no variable was set, no complaint and no request was made."""
    hostile_log(tmp_path / "hostile.jsonl", hostile_names())
    made = run_ringtune("review", str(tmp_path / "hostile.jsonl"), "--html", str(tmp_path / "hostile.html"))
    assert 0 == made.returncode, made.stderr

    seen = visit(browser, tmp_path / "hostile.html")

    assert [] == seen.complaints
    assert 1 == len([url for url in seen.requests if not url.startswith(("data:", "blob:"))])
    assert seen.page.evaluate("typeof window.hacked") == "undefined"
    assert 0 == seen.page.locator("[data-figure] svg a").count()
    seen.page.close()
