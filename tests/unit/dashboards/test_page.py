# SPDX-License-Identifier: Apache-2.0
"""Tests of the report's page: self-contained, accessible, and closed to whatever stands in a log."""

import base64
import hashlib
import json
from pathlib import Path

import pytest

from ringtune.cli import _run_app
from ringtune.dashboards.report.page import FIGURES_OF_DEFAULT, render_page, write_page
from ringtune.errors import ConfigError
from ringtune.tuner.review import review_log
from ringtune.tuner.testing import SyntheticTarget, flat_surface, poor_baseline
from tests.unit.dashboards.hostile import hostile_log, hostile_names
from tests.unit.dashboards.pages import Page
from tests.unit.tuner.review.logs import HOROVOD, logged

FETCHING_ATTRIBUTES = {"src", "srcset", "action", "data", "poster", "formaction", "background"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of a real tuning run on a synthetic target."""
    path = tmp_path_factory.mktemp("page") / "x.jsonl"
    logged(path, target=SyntheticTarget(baseline=poor_baseline(), seed=1), model_name="resnet50", max_samples=8)
    return path


@pytest.fixture(scope="module")
def page(log: Path) -> Page:
    """Return the report of that log."""
    return Page.of(render_page([review_log(log)]))


def test_the_page_is_whole_and_fetches_nothing(page: Page) -> None:
    """Every element is closed; no attribute would make a request; links stay on the page."""
    assert [] == page.unclosed
    assert [] == [e for e in page.elements if FETCHING_ATTRIBUTES & set(e.attributes)]
    links = [e.attributes["href"] for tag in ("a", "link") for e in page.all(tag)]
    assert all(link.startswith(("#", "data:,")) for link in links)
    assert "url(" not in page.all("style")[0].text


def scripts_of(page: Page, *, are_data: bool = False) -> list[str]:
    """Return the scripts that run, or the JSON in elements that do not."""
    return [e.text for e in page.all("script") if are_data == (e.attributes.get("type") == "application/json")]


def test_only_the_pages_own_scripts_may_run(page: Page) -> None:
    """The policy names exactly their hashes; neither inline handlers nor evaluated code would be let through."""
    (policy,) = [e.attributes["content"] for e in page.all("meta") if "http-equiv" in e.attributes]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))

    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts_of(page)]

    assert 2 == len(digests)
    assert " ".join(f"'sha256-{digest}'" for digest in digests) == directives["script-src"]
    assert "'none'" == directives["default-src"]
    assert [] == [name for name in attributes_of(page) if name.startswith("on")]


def attributes_of(page: Page) -> set[str]:
    """Return the names of all attributes."""
    return {name for element in page.elements for name in element.attributes}


def test_every_figure_is_named_described_and_has_a_table(page: Page) -> None:
    """A screen reader hears title and summary, and finds the numbers."""
    ids = {e.attributes["id"] for e in page.elements if "id" in e.attributes}
    plots = [e for e in page.elements if "data-figure" in e.attributes]

    assert len(page.all("figure")) == len(plots) >= 9
    for plot in plots:
        named = {plot.attributes[name] for name in ("aria-labelledby", "aria-describedby", "data-figure")}
        assert named <= ids
        assert "img" == plot.attributes["role"]
    assert len(plots) == len(page.all("summary"))
    assert len(page.all("table")) >= len(plots)
    assert all(e.attributes["scope"] in {"col", "row"} for e in page.all("th"))
    assert len(ids) == sum("id" in e.attributes for e in page.elements)


def test_the_verdict_comes_first(log: Path, page: Page) -> None:
    """Before any figure, with the settings to paste."""
    run = review_log(log).runs[0]
    tags = [e.attributes.get("class") or e.tag for e in page.elements]

    (verdict,) = [e for e in page.elements if "verdict" in e.attributes.get("class", "")]
    assert run.verdict == verdict.text
    assert tags.index("verdict adopted") < tags.index("pre") < tags.index("figure")
    assert "RINGTUNE_FUSION_BYTES=" in page.all("pre")[0].text
    assert "model resnet50" in page.all("h2")[0].text


def test_figures_arrive_as_they_were_built(page: Page) -> None:
    """The JSON in the page is Plotly's description."""
    blocks = [json.loads(text) for text in scripts_of(page, are_data=True)]

    assert len(page.all("figure")) == len(blocks)
    assert all({"data", "layout"} <= set(block) for block in blocks)


def test_a_run_that_kept_the_default_folds_most_figures(tmp_path: Path, page: Page) -> None:
    """Convergence and step times are shown; without a gain the other figures do not matter."""
    path = tmp_path / "x.jsonl"
    logged(path, target=SyntheticTarget(surface=flat_surface, seed=1))

    kept = Page.of(render_page([review_log(path)]))

    folds = [e for e in kept.all("details") if e.attributes.get("class") == "more"]
    assert 1 == len(folds)
    assert [] == [e for e in page.all("details") if e.attributes.get("class") == "more"]
    assert any("more figures" in e.text for e in kept.all("summary"))
    assert len(kept.all("figure")) > FIGURES_OF_DEFAULT


def test_a_file_of_something_else_is_called_so(tmp_path: Path) -> None:
    """Its lines are not listed one by one."""
    (tmp_path / "train.py").write_text("import torch\n" * 15)

    text = render_page([review_log(tmp_path / "train.py")])

    assert "this is no tuning log; give the file that AUTOTUNE_LOG named" in text
    assert "not JSON" not in text


def test_500_hostile_names_run_nothing(tmp_path: Path, page: Page) -> None:
    """A hostile name of anything in a log becomes no element, attribute or script, and is shown as text."""
    names = hostile_names()
    hostile_log(tmp_path / "hostile.jsonl", names)

    hostile = Page.of(render_page([review_log(tmp_path / "hostile.jsonl")]))

    assert [] == hostile.unclosed
    assert {e.tag for e in hostile.elements} <= {e.tag for e in page.elements}
    assert attributes_of(hostile) <= attributes_of(page)
    assert scripts_of(page) == scripts_of(hostile)
    assert set(names) <= {cell.text for cell in hostile.all("td")}
    assert "<" not in "".join(scripts_of(hostile, are_data=True))


def test_logs_stand_side_by_side_and_bad_lines_are_told(tmp_path: Path, log: Path) -> None:
    """A page for a log without a run says how to tune."""
    (tmp_path / "h.csv").write_text(HOROVOD + "torn\n")
    (tmp_path / "empty.jsonl").write_text("")

    both = Page.of(render_page([review_log(log), review_log(tmp_path / "h.csv")]))
    empty = Page.of(render_page([review_log(tmp_path / "empty.jsonl")]))

    assert "Side by side" in [e.text for e in both.all("h2")]
    assert any("line 9: 1 values" in e.text for e in both.all("li"))
    assert any("AUTOTUNE=1" in e.text for e in empty.all("code"))


def test_the_command_writes_the_page(tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page is written beside the printed review."""
    code = _run_app(["review", str(log), "--html", str(tmp_path / "x.html"), "--json"])

    assert 0 == code
    assert "resnet50" == json.loads(capsys.readouterr().out)[0]["runs"][0]["model_name"]
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")


def test_a_page_that_cannot_be_written_is_a_usage_error(tmp_path: Path, log: Path) -> None:
    """The error has the path and the remedy."""
    with pytest.raises(ConfigError, match=r"cannot be written \(.*\); give another path"):
        write_page(tmp_path / "nowhere" / "x.html", [review_log(log)])
