# SPDX-License-Identifier: Apache-2.0
"""Version 1 of the calls, one file per resource."""

from . import archive, events, jobs, recommendations, results, runs, studies, suggestions, tokens

ROUTERS = (
    recommendations.router,
    studies.router,
    suggestions.router,
    results.router,
    jobs.router,
    runs.router,
    archive.router,
    tokens.router,
    events.router,
)

__all__ = ["ROUTERS"]
