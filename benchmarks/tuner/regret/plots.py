# SPDX-License-Identifier: Apache-2.0
"""Pages with a comparison's figures: regret by budget, its distribution over runs, and the losses that were kept."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import plotly.graph_objects as go

from .outcomes import Outcomes
from .problems import KINDS
from .report import HEADINGS

STANDARD_ERRORS = 2.0
HEIGHT_PX = 560
LOG_TICKS = tuple(digit * 10.0**power for power in range(-1, 3) for digit in (1, 2, 5))


def write_plots(outcomes: Outcomes, folder: Path) -> list[Path]:
    """Write the pages, each on its own and readable without a network.

    Args:
        outcomes: Outcomes of the comparison.
        folder: Made if it is not there; plotly's script is put beside the pages, once.

    Returns:
        The pages.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    for kind in KINDS:
        if searched := outcomes.searched(kind):
            pages.append(_page(folder / f"regret_{kind}.html", regret_figure(outcomes, searched, HEADINGS[kind])))
            figure = distribution_figure(outcomes, searched, HEADINGS[kind])
            pages.append(_page(folder / f"distribution_{kind}.html", figure))
    pages.append(_page(folder / "losses.html", loss_figure(outcomes)))
    return pages


def regret_figure(outcomes: Outcomes, problems: Sequence[str], heading: str) -> go.Figure:
    """Return mean regret over the budget, a line per rival with two standard errors."""
    figure = _figure(f"Mean regret, {heading}", "steps", "regret, %")
    for rival in outcomes.rivals:
        runs = [100 * outcomes.values("regret", rival, budget, problems) for budget in outcomes.budgets]
        errors = [STANDARD_ERRORS * float(run.std(ddof=1)) / len(run) ** 0.5 if len(run) > 1 else 0.0 for run in runs]
        figure.add_trace(
            go.Scatter(
                x=list(outcomes.budgets),
                y=[float(run.mean()) for run in runs],
                error_y={"type": "data", "array": errors},
                name=rival,
                mode="lines+markers",
            )
        )
    figure.update_xaxes(tickvals=list(outcomes.budgets))
    figure.update_yaxes(type="log", tickvals=LOG_TICKS)
    return figure


def distribution_figure(outcomes: Outcomes, problems: Sequence[str], heading: str) -> go.Figure:
    """Return for each rival which share of runs at the middle budget is within how much of the optimum."""
    budget = outcomes.budgets[len(outcomes.budgets) // 2]
    figure = _figure(f"Runs within a regret at {budget} steps, {heading}", "regret, %", "share of runs, %")
    for rival in outcomes.rivals:
        regret = np.sort(100 * outcomes.values("regret", rival, budget, problems))
        share = 100 * np.arange(1, len(regret) + 1) / len(regret)
        figure.add_trace(go.Scatter(x=regret.tolist(), y=share.tolist(), name=rival, line={"shape": "hv"}))
    figure.update_xaxes(range=[0, 30])
    return figure


def loss_figure(outcomes: Outcomes) -> go.Figure:
    """Return the change of step time by picks, a box per rival over all problems and budgets."""
    figure = _figure("Step time of the pick over the baseline's, all problems", "", "change, %")
    for rival in outcomes.rivals:
        loss = np.concatenate([outcomes.values("loss", rival, b, outcomes.problems) for b in outcomes.budgets])
        figure.add_trace(go.Box(y=(100 * loss).tolist(), name=rival, showlegend=False))
    return figure


def _figure(title: str, x: str, y: str) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(title=title, xaxis_title=x, yaxis_title=y, height=HEIGHT_PX, template="plotly_white")
    return figure


def _page(path: Path, figure: go.Figure) -> Path:
    figure.write_html(path, include_plotlyjs="directory")
    return path
