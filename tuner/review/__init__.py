# SPDX-License-Identifier: Apache-2.0
"""Offline review of tuning logs of ringtune, Horovod and Bagua: gain, cost and sensitivity to parameters."""

from .advice import advice
from .analysis import Analysis, analyse
from .comparison import comparison
from .outlook import Outlook, outlook
from .plain_data import to_json
from .reading import review_log
from .settings_text import settings_to_paste
from .so_far import so_far
from .summary import Review, RunReview, TriedSample, review_run
from .table import output_console, render_comparison, render_review

__all__ = [
    "Analysis",
    "Outlook",
    "Review",
    "RunReview",
    "TriedSample",
    "advice",
    "analyse",
    "comparison",
    "outlook",
    "output_console",
    "render_comparison",
    "render_review",
    "review_log",
    "review_run",
    "settings_to_paste",
    "so_far",
    "to_json",
]
