# SPDX-License-Identifier: Apache-2.0
"""Plotly figures of tuning runs, built in one place for the report and for the web pages."""

from .figure import Figure, FigureTable
from .gallery import figures_of

__all__ = ["Figure", "FigureTable", "figures_of"]
