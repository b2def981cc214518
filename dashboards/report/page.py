# SPDX-License-Identifier: Apache-2.0
"""The page of `ringtune review --html`: verdict, figures and tables in one file.

The page's content security policy names its two scripts by their hashes, so that no other code runs, whatever names
stand in a log; and it allows no request. Jinja2 escapes every name, and JSON in script elements has no angle bracket.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from ringtune.dashboards.figures.figure import Figure
from ringtune.dashboards.figures.gallery import figures_of
from ringtune.errors import ConfigError
from ringtune.system.counts import counted
from ringtune.system.output_files import write_output_file
from ringtune.tuner.policy.reporting import verdict_parts
from ringtune.tuner.review import (
    Analysis,
    Review,
    RunReview,
    advice,
    analyse,
    comparison,
    settings_to_paste,
    so_far,
    words,
)
from ringtune.tuner.review.spaces import own_names
from ringtune.tuner.space.readable import readable_value

TEMPLATES = Path(__file__).parent / "templates"
SHOWN_BAD_LINES = 100
FIGURES_OF_DEFAULT = 2
"""Number of figures of a run that kept the default, convergence and step times; the others are folded."""
SHOWN_RUNS = 6
"""Maximum runs of one log side by side; the newest is shown in full."""


@dataclass(frozen=True)
class Section:
    """A run as the template shows it."""

    path: str
    run: RunReview
    analysis: Analysis
    verdict: str
    figures: tuple[Figure, ...]
    folded: tuple[Figure, ...]
    facts: tuple[str, ...]
    settings: tuple[str, ...]
    configs: tuple[tuple[str, str, str], ...]
    findings: tuple[str, ...]
    advice: tuple[str, ...]


def write_page(path: Path, reviews: Sequence[Review]) -> None:
    """Write the report of logs.

    Raises:
        ConfigError: If the file cannot be written.
    """
    page = render_page(reviews)
    try:
        write_output_file(path, page.encode("utf-8", "replace"))
    except OSError as error:
        raise ConfigError(f"the report {path} cannot be written ({error.strerror}); give another path") from error


def render_page(reviews: Sequence[Review]) -> str:
    """Return the report: the newest run of each log in full, all of them side by side where there are several."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    scripts = [_closed(get_plotlyjs()), _closed((TEMPLATES / "report.js").read_text(encoding="utf-8"))]
    sections = [_section(review) for review in reviews if review.runs]
    return environment.get_template("report.html.j2").render(
        sections=sections,
        comparison=_rows(reviews, sections),
        reviews=reviews,
        shown_bad_lines=SHOWN_BAD_LINES,
        words=words,
        style=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),  # noqa: S704  (a file of ours)
        scripts=[Markup(script) for script in scripts],  # noqa: S704  (Plotly's, and a file of ours)
        script_sources=" ".join(f"'sha256-{_digest(script)}'" for script in scripts),
    )


def _rows(reviews: Sequence[Review], sections: Sequence[Section]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the comparison of logs, or of the newest runs of one log; empty where there is one run."""
    if len(reviews) == 1 and sections and len(reviews[0].telling_runs) > 1:
        return comparison([(words.run_name(run), run, analyse(run)) for run in reviews[0].telling_runs[-SHOWN_RUNS:]])
    return comparison([(s.path, s.run, s.analysis) for s in sections]) if len(sections) > 1 else []


def _section(review: Review) -> Section:
    run = review.telling_runs[-1]
    analysis = analyse(run)
    figures, (first, rest) = figures_of(run, analysis), verdict_parts(run.verdict)
    shown = len(figures) if run.adopted or not run.is_complete else FIGURES_OF_DEFAULT
    return Section(
        path=review.path,
        run=run,
        analysis=analysis,
        verdict=first,
        figures=tuple(figures[:shown]),
        folded=tuple(figures[shown:]),
        facts=(*rest, *so_far(run, analysis), *words.rates(run), *words.cost(run), *words.left_out(review)),
        settings=tuple(settings_to_paste(run)),
        configs=tuple(
            (
                name,
                readable_value(name, run.baseline.get(name) if run.baseline else None),
                readable_value(name, run.chosen.get(name) if run.chosen else None),
            )
            for name in own_names(run)
        ),
        findings=(words.convergence(run, analysis), words.noise(run, analysis), words.drift(analysis)),
        advice=tuple(advice(run, analysis)),
    )


def _closed(script: str) -> str:
    """Return a script that cannot end its element early."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
