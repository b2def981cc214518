# SPDX-License-Identifier: Apache-2.0
"""The documentation's site: it builds strictly, is complete, and needs no server, neither others' nor its own."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtune import __version__
from tests.house.source_tree import REPOSITORY

pytest.importorskip("material", reason="no mkdocs-material: the extra docs is not installed")
BUILD_S = 540.0
SHOWN_MS = 120_000
PICTURE_BYTES_MAX = 150_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built as `make docs` does: any broken link is an error."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert 0 == built.returncode, built.stderr
    return folder


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """Open an empty page."""
    opened = browser.new_page()
    yield opened
    opened.close()


def public_names(package: str) -> set[str]:
    """Return the public names of a package of the Python sources."""
    source = REPOSITORY.joinpath("native", "python", *package.split("."), "__init__.py").read_text(encoding="utf-8")
    lists = [n.value for n in ast.parse(source).body if isinstance(n, ast.Assign) and "__all__" in ast.dump(n)]
    return set(ast.literal_eval(lists[0]))


@pytest.mark.parametrize(
    "package",
    ["ringtune.torch", "ringtune.torch.elastic", "ringtune.jax", "ringtune.fsdp", "ringtune.client", "ringtune.tuner"],
)
def test_the_reference_has_every_public_name(site: Path, package: str) -> None:
    """A function with the name of its module is in the reference, too; a package has a page of its own."""
    text = (site / "reference" / "python" / f"{package}.html").read_text(encoding="utf-8")

    shown = set(re.findall(rf' id="{re.escape(package)}\.(\w+)', text))

    pages = {name for name in public_names(package) if (site / f"reference/python/{package}.{name}.html").exists()}
    assert set() == public_names(package) - shown - pages


def test_the_reference_has_every_command_and_every_call(site: Path) -> None:
    """Every command of the command line, nested ones included, and every REST call has a section."""
    commands = (site / "reference" / "command_line.html").read_text(encoding="utf-8")
    calls = (site / "reference" / "rest.html").read_text(encoding="utf-8")

    assert all(f"ringtune {name}" in commands for name in ("run", "review", "serve", "token create", "simulate"))
    assert all(f"{name}</code>" in calls for name in ("GET /v1/recommendations", "POST /v1/studies", "GET /healthz"))


def test_every_page_has_the_version_and_the_groups_of_the_how_tos(site: Path) -> None:
    """The title says which version the pages describe; the navigation groups the how-tos as the front page does."""
    text = (site / "glossary.html").read_text(encoding="utf-8")
    start = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    groups = re.findall(r"^\| ([A-Z][^|]*?) \|", start.partition("## How to")[2].partition("## ")[0], re.MULTILINE)

    assert f"ringtune {__version__}</title>" in text
    assert len(groups) >= 8
    assert [] == [group for group in groups if group.replace("'", "&#39;") not in text and group not in text]


def test_formulas_are_mathml(site: Path) -> None:
    """No LaTeX is left for the browser to turn into anything."""
    text = (site / "mathematics.html").read_text(encoding="utf-8")

    assert text.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') > 10
    assert "arithmatex" not in text
    assert "\\frac" not in text


def test_what_lies_outside_of_the_folder_has_pages_too(site: Path) -> None:
    """A link to CONTRIBUTING.md or to an example leads to a page of the site."""
    assert 'href="repository/CONTRIBUTING.html"' in (site / "index.html").read_text(encoding="utf-8")
    assert "BroadcastGlobalVariablesCallback" in (site / "repository" / "examples" / "keras_digits.py.html").read_text(
        encoding="utf-8"
    )


def test_pages_opened_as_files_can_be_searched_and_ask_for_nothing_else(site: Path, page: Any) -> None:
    """The search finds a page by a word of its text; no request leaves the folder."""
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((site / "howto" / "first_job.html").as_uri())

    page.click(".md-search__form")
    page.locator("input[name=query]").press_sequentially("haybittle")
    page.wait_for_selector(".md-search-result__item", timeout=SHOWN_MS)

    assert "The mathematics of the tuner" in page.locator(".md-search-result__item").first.inner_text()
    assert [] == complaints
    assert [] == [url for url in requests if not url.startswith((site.as_uri(), "data:", "blob:"))]


def test_pictures_are_small() -> None:
    """Each of the tutorial's, so that a page opens at once."""
    pictures = list((REPOSITORY / "docs" / "pictures").iterdir())

    assert len(pictures) >= 5
    assert [] == [path.name for path in pictures if path.stat().st_size > PICTURE_BYTES_MAX]
