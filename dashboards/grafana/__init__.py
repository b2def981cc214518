# SPDX-License-Identifier: Apache-2.0
"""Grafana's dashboards, written by a program: for operators of the service, and for users with jobs.

`python -m ringtune.dashboards.grafana FOLDER` writes them; the files beside this one are its output.
"""

from .dashboard import Dashboard
from .jobs import jobs_dashboard
from .service import service_dashboard

__all__ = ["Dashboard", "dashboards", "jobs_dashboard", "service_dashboard"]


def dashboards() -> dict[str, Dashboard]:
    """Return all dashboards by the name of their file."""
    return {"service.json": service_dashboard(), "jobs.json": jobs_dashboard()}
