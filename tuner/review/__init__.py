# SPDX-License-Identifier: Apache-2.0
"""Offline review of tuning logs: what was tried, what was chosen and why."""

from .summary import Review, RunReview, TriedSample, review_log, to_json
from .table import render_table

__all__ = ["Review", "RunReview", "TriedSample", "render_table", "review_log", "to_json"]
