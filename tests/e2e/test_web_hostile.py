# SPDX-License-Identifier: Apache-2.0
"""Names out of reports cannot become script: 500 of them, in every view, in a real browser."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.contract.service.applications import ADMIN_SECRET
from tests.e2e.browsing import LIMIT_MS, Visit, visiting
from tests.e2e.hostile_studies import VALUES, HostileStudies, all_hostile_names, write_hostile_database
from tests.e2e.web_service import WebService, web_service

pytestmark = pytest.mark.timeout(600)
NAMES = all_hostile_names()
LOOK = """async (limit_ms) => {
  const end = performance.now() + limit_ms;
  const root = document.documentElement;
  const isDrawn = () => !document.querySelector("[data-figure]") || root.dataset.drawn !== undefined;
  while (!isDrawn() && performance.now() < end) {
    await new Promise((done) => setTimeout(done, 5));
  }
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const isOurs = (script) => script.type === "application/json" || script.src.startsWith(`${location.origin}/static/`);
  const hasHandler = (one) => Array.from(one.attributes).some((attribute) => /^on/i.test(attribute.name));
  const foreign = [
    ...Array.from(document.scripts).filter((script) => !isOurs(script)),
    ...all("iframe, object, embed, base, style, form[action^='http'], meta[http-equiv], svg a, [data-figure] image"),
    ...all("*").filter(hasHandler),
    ...all("a").filter((link) => link.origin !== location.origin),
  ];
  return {
    drawn: isDrawn(),
    foreign: foreign.map((one) => one.outerHTML.slice(0, 300)),
    hacked: typeof window.hacked,
    title: document.title.endsWith("· ringtune"),
    violations: window.violations,
    overflow: document.scrollingElement.scrollWidth - innerWidth,
  };
}"""
TEXTS = "all => all.map((one) => one.textContent)"
COMPARED = 6
PAGE = 50
FORGOTTEN_AFTER = 50
SHORT_EVERY = 100
"""In the short tests: every so many-th name, or page of figures."""
SHORT_PAGES = 10
"""In the short tests: every so many-th page of a list."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WebService, HostileStudies]]:
    """A service in which everything has a hostile name, and its studies."""
    folder = tmp_path_factory.mktemp("hostile")
    studies = write_hostile_database(folder, NAMES)
    with web_service(folder) as running:
        yield running, studies


def check(seen: Visit, url: str) -> Any:
    """Open a view, and return its page; no script ran, no foreign element is in it, and the title is ours."""
    seen.page.goto(url)
    found = seen.page.evaluate(LOOK, LIMIT_MS)
    overflow = found.pop("overflow")
    clean = {"drawn": True, "foreign": [], "hacked": "undefined", "title": True, "violations": []}
    assert (clean, []) == (found, seen.complaints), url
    assert overflow <= 0, url
    return seen.page


def plain(name: str) -> str:
    """Return a name as a page has it: HTML has no NUL."""
    return name.replace("\0", "")


def look_at_lists(seen: Visit, service: WebService, studies: HostileStudies, every: int = 1) -> None:
    """Look at the pages of every list that names models or hardware, which together name each of the 500."""
    in_studies, hardware, models = set[str](), set[str](), set[str]()
    count = len(studies.of_values) + len(studies.alone) + len(studies.together)
    for number in range(1, -(-count // PAGE) + 1, every):
        page = check(seen, f"{service.url}/studies?page={number}")
        in_studies.update(page.eval_on_selector_all("tbody th bdi", TEXTS))
    for number in range(1, -(-(len(NAMES) + 1) // PAGE) + 1, every):
        page = check(seen, f"{service.url}/hardware?page={number}")
        hardware.update(page.eval_on_selector_all("[aria-labelledby=hardware-title] tbody th bdi", TEXTS))
    for beginning in studies.model_beginnings[::every]:
        page = check(seen, f"{service.url}/hardware?q={beginning}")
        models.update(page.eval_on_selector_all("[aria-labelledby=models-title] tbody th bdi", TEXTS))
    check(seen, f"{service.url}/recommendations")
    expected = {plain(name) for name in NAMES}
    for listed in (in_studies, hardware, models):
        assert len(expected & listed) >= (len(expected) if every == 1 else len(expected) // (2 * every))


def look_at_figures(seen: Visit, service: WebService, studies: HostileStudies, every: int = 1) -> None:
    """Names in figures, their tables and their data: kinds of hardware beside each other, and studies of one model."""
    for model in studies.models[::every]:
        page = check(seen, f"{service.url}/hardware?model={model}")
        assert page.locator("[data-figure] svg.main-svg").count() >= 2
    for ids in studies.of_one_model(COMPARED)[::every]:
        page = check(seen, f"{service.url}/compare?{urlencode([('study', study_id) for study_id in ids])}")
        assert page.locator("[data-figure] svg.main-svg").count() >= 2


def look_at_each(browser: Any, service: WebService, studies: HostileStudies, numbers: Sequence[int]) -> None:
    """Open the pages of each name: its study, questions, searches, and missing pages.

    The browser forgets all after some names: thousands of visits by one page exhaust its memory for them.
    """
    for begin in range(0, len(numbers), FORGOTTEN_AFTER):
        look_at_some(browser, service, studies, numbers[begin : begin + FORGOTTEN_AFTER])


def look_at_some(browser: Any, service: WebService, studies: HostileStudies, numbers: Sequence[int]) -> None:
    """Open the same of a few names."""
    with visiting(browser) as seen:
        for number in numbers:
            for path in paths_of_answers(number):
                check(seen, f"{service.url}{path}")
    with visiting(browser) as seen:
        # Nothing is drawn on these pages: most of the time would be spent on reading plotly.js. An empty file comes.
        seen.page.route("**/plotly.*", lambda route: route.fulfill(body="", content_type="text/javascript"))
        for number in numbers:
            name = urlencode({"model": NAMES[number][:200]})
            for path in (f"/studies/{studies.alone[number]}", f"/hardware?{name}"):
                page = check(seen, f"{service.url}{path}")
                assert 0 == page.locator("[data-figure]").count(), path


def paths_of_answers(number: int) -> list[str]:
    """Return questions with a name, and others in the fields beside it; of those that make an error one of three."""
    name, *others = (NAMES[(number + shift) % len(NAMES)][:200] for shift in range(4))
    answers = (
        {"model": name, "world_size": 2, "target": others[0]},
        {"model": name, "hardware": others[0], "world_size": others[1]},
    )
    problems = (
        f"/studies?{urlencode({'sort': name, 'finding': others[0]})}",
        f"/studies/{quote(name[:64], safe='')}?{urlencode({'job': others[0][:64]})}",
        f"/{quote(name, safe='')}",
    )
    return [
        f"/recommendations?{urlencode(answers[number % len(answers)])}",
        f"/studies?{urlencode({'q': name, 'target': others[0], 'model': others[1], 'hardware': others[2]})}",
        f"/hardware?{urlencode({'q': name})}",
        problems[number % len(problems)],
    ]


def look_at_values(seen: Visit, service: WebService, study_id: str) -> None:
    """A study whose configs have hostile values: in tables, figures and hover texts, in settings, runs, reasons."""
    page = check(seen, f"{service.url}/studies/{study_id}")
    assert page.locator("[data-figure] svg.main-svg").count() >= 2
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    for figure in page.locator("[data-figure]").all():
        figure.scroll_into_view_if_needed()
        box = figure.bounding_box()
        for share in (0.2, 0.5, 0.8):
            page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
    found = page.evaluate(LOOK, LIMIT_MS)
    assert ([], "undefined", [], []) == (found["foreign"], found["hacked"], found["violations"], seen.complaints)


def test_hostile_names_in_lists_and_figures_run_nothing(
    browser: Any, hostile: tuple[WebService, HostileStudies]
) -> None:
    """Every tenth page of the lists, where hardware and models are counted too; every hundredth page of figures."""
    service, studies = hostile
    with visiting(browser) as seen:
        look_at_lists(seen, service, studies, every=SHORT_PAGES)
        look_at_figures(seen, service, studies, every=SHORT_EVERY)
        assert [] == [url for url in seen.requests if not url.startswith((service.url, "data:", "blob:"))]


def test_a_study_of_hostile_values_runs_nothing(browser: Any, hostile: tuple[WebService, HostileStudies]) -> None:
    """Sixty of them; figures and tables have every one."""
    service, studies = hostile
    with visiting(browser) as seen:
        look_at_values(seen, service, studies.of_values[0])
        values = seen.page.eval_on_selector_all("[data-live=configs] tbody tr", "all => all.length")

        assert VALUES == values


def test_views_of_a_hostile_name_run_nothing(browser: Any, hostile: tuple[WebService, HostileStudies]) -> None:
    """Every hundredth name, in each view that is about one."""
    service, studies = hostile

    look_at_each(browser, service, studies, range(0, len(NAMES), SHORT_EVERY))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_views_of_every_hostile_name_run_nothing(browser: Any, hostile: tuple[WebService, HostileStudies]) -> None:
    """All 500."""
    service, studies = hostile

    look_at_each(browser, service, studies, range(len(NAMES)))


@pytest.mark.long
def test_every_hostile_name_is_listed_and_runs_nothing(
    browser: Any, hostile: tuple[WebService, HostileStudies]
) -> None:
    """All 500 are in each of the lists."""
    service, studies = hostile
    with visiting(browser) as seen:
        look_at_lists(seen, service, studies)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_hostile_name_in_figures_runs_nothing(browser: Any, tmp_path: Path) -> None:
    """All 500, as names of models, of hardware, and as values of configs."""
    studies = write_hostile_database(tmp_path, NAMES, is_every_name_a_value=True)
    with web_service(tmp_path) as service, visiting(browser) as seen:
        look_at_figures(seen, service, studies)
        for study_id in studies.of_values:
            look_at_values(seen, service, study_id)


def wait_for_the_lock(service: WebService) -> None:
    """Wait until the service has noticed that there are tokens: it remembers for a moment that it was open."""
    end_s = time.monotonic() + 30.0
    while service.client.get("/v1/studies").status_code != 401:
        assert time.monotonic() < end_s, "it is still open"


@pytest.mark.parametrize("count", [4, pytest.param(12, marks=pytest.mark.long)])
def test_hostile_fields_of_a_form_that_is_not_confirmed_run_nothing(browser: Any, tmp_path: Path, count: int) -> None:
    """Hostile fields come back on the page that asks for the token, and arrive unchanged."""
    variables = {"RINGTUNE_SERVICE_ADMIN_TOKEN": ADMIN_SECRET}
    names = [name for name in NAMES[:60] if name.isprintable() and len(name.strip()) == len(name) <= 200][:count]
    with web_service(tmp_path, variables, ADMIN_SECRET) as service, visiting(browser) as seen:
        page = seen.go(f"{service.url}/sign-in?next=/tokens").page
        page.get_by_role("textbox", name="Token").fill(ADMIN_SECRET)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/tokens")
        for name in names:
            page.evaluate("localStorage.clear()")
            page.get_by_label("Who or what uses it").fill(name)
            page.get_by_role("button", name="Create").click()
            page.get_by_label("Your token").fill(ADMIN_SECRET)
            assert [] == seen.violations, name
            page.get_by_role("button", name="Go on").click()
            page.locator("#secret").wait_for()

        assert [] == seen.complaints
        assert sorted(names) == sorted(item["name"] for item in service.client.get("/v1/tokens").json()["items"])


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
