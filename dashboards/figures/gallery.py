# SPDX-License-Identifier: Apache-2.0
"""All figures of a run, in the order in which they answer questions; those that its log cannot answer are left out."""

from ringtune.tuner.review import Analysis, RunReview

from .convergence import convergence_figure
from .distribution import distribution_figure
from .effects import sensitivity_figure, slice_figures
from .figure import Figure
from .parallel import parallel_figure
from .surface import surface_figure
from .timeline import timeline_figure

SURFACE_OVER = ("fusion_bytes", "cycle_ms")


def figures_of(run: RunReview, analysis: Analysis) -> list[Figure]:
    """Return the figures of a run."""
    figures = [
        convergence_figure(run, analysis),
        distribution_figure(run, analysis),
        sensitivity_figure(analysis),
        *slice_figures(analysis),
        surface_figure(run, analysis, SURFACE_OVER),
        parallel_figure(run, analysis),
        timeline_figure(run),
    ]
    return [figure for figure in figures if figure is not None]
