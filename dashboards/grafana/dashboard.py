# SPDX-License-Identifier: Apache-2.0
"""A dashboard: rows of panels, the variables that filter them, and its JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from .panels import DATASOURCE, Json, Panel

COLUMNS = 24
SCHEMA_VERSION = 39


@dataclass(frozen=True)
class DashboardVariable:
    """A choice at the head of the dashboard, several values at once or all.

    Attributes:
        name: Its name in queries, after `$`.
        title: Its title for people.
        metric: The series whose label has the values, with the choices before this one.
        label: The label that holds its values.
    """

    name: str
    title: str
    metric: str
    label: str

    def to_json(self) -> Json:
        """Return the variable as Grafana reads it."""
        query = f"label_values({self.metric}, {self.label})"
        return {
            "allValue": ".*",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
            "datasource": DATASOURCE,
            "definition": query,
            "includeAll": True,
            "label": self.title,
            "multi": True,
            "name": self.name,
            "query": {"query": query, "refId": self.name},
            "refresh": 2,
            "sort": 3,
            "type": "query",
        }


@dataclass(frozen=True)
class PanelRow:
    """Panels under one heading, laid out from left to right."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Dashboard:
    """A dashboard.

    Attributes:
        uid: Its name in links; never changes.
        title: Its name.
        description: Its audience and purpose.
        variables: Choices at its head.
        rows: Its rows of panels.
    """

    uid: str
    title: str
    description: str
    variables: Sequence[DashboardVariable]
    rows: Sequence[PanelRow]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels."""
        return tuple(panel for row in self.rows for panel in row.panels)

    def text(self) -> str:
        """Return the file's content."""
        return json.dumps(self.to_json(), indent=2, sort_keys=True) + "\n"

    def to_json(self) -> Json:
        """Return the dashboard as Grafana reads it."""
        source: Json = {"label": "Data source", "name": "datasource", "query": "prometheus", "type": "datasource"}
        return {
            "annotations": {"list": []},
            "description": self.description,
            "editable": True,
            "graphTooltip": 1,
            "id": None,
            "links": [],
            "panels": self._panels(),
            "refresh": "30s",
            "schemaVersion": SCHEMA_VERSION,
            "tags": ["ringtune"],
            "templating": {"list": [source, *(variable.to_json() for variable in self.variables)]},
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "title": self.title,
            "uid": self.uid,
        }

    def _panels(self) -> list[Json]:
        found: list[Json] = []
        y = 0
        for row in self.rows:
            found.append(
                {
                    "collapsed": False,
                    "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
                    "id": len(found) + 1,
                    "panels": [],
                    "title": row.title,
                    "type": "row",
                }
            )
            y += 1
            x = height = 0
            for panel in row.panels:
                if x + panel.width > COLUMNS:
                    x, y, height = 0, y + height, 0
                found.append(panel.to_json(len(found) + 1, x, y))
                x, height = x + panel.width, max(height, panel.height)
            y += height
        return found
