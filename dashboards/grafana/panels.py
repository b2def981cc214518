# SPDX-License-Identifier: Apache-2.0
"""The kinds of panels that the dashboards are made of, as Grafana's JSON has them.

Written for Grafana 10 to 12, whose panels have these fields in common. Every panel says its subject and when to act.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
GREEN, AMBER, RED, BLUE = "green", "orange", "red", "blue"


@dataclass(frozen=True)
class Query:
    """An expression of PromQL, and how its series are named.

    Attributes:
        expression: PromQL, with Grafana's variables.
        legend: Name of each series, with `{{label}}`.
        is_now: Whether the newest value is asked for instead of the course of time.
    """

    expression: str
    legend: str = ""
    is_now: bool = False


@dataclass(frozen=True)
class Panel:
    """One panel: the common part of all kinds.

    Attributes:
        title: A few words.
        description: The meaning, and when to act; shown beside the title.
        queries: Queries of its series.
        unit: Grafana's name of the unit.
        width: Columns out of 24.
        height: In rows of the grid.
        kind: Grafana's name of the kind.
        defaults: Field defaults, beside the unit.
        options: Options of its kind.
        overrides: Fields by the name of a series.
        transformations: Transformations of the queries' results.
    """

    title: str
    description: str
    queries: Sequence[Query]
    unit: str
    width: int
    height: int
    kind: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    transformations: Sequence[Json] = ()

    def to_json(self, number: int, x: int, y: int) -> Json:
        """Return the panel as Grafana reads it, at its place in the grid."""
        return {
            "datasource": DATASOURCE,
            "description": self.description,
            "fieldConfig": {
                "defaults": {"unit": self.unit, **self.defaults},
                "overrides": [_override(name, fields) for name, fields in self.overrides.items()],
            },
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "id": number,
            "options": dict(self.options),
            "targets": [_target(index, query, self.kind) for index, query in enumerate(self.queries)],
            "title": self.title,
            "transformations": list(self.transformations),
            "type": self.kind,
        }


def over_time(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "short",
    is_stacked: bool = False,
    limits: Mapping[float, str] | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    width: int = 8,
    is_from_zero: bool = True,
) -> Panel:
    """Return lines over time.

    Args:
        title: See `Panel`.
        description: See `Panel`.
        queries: See `Panel`.
        unit: See `Panel`.
        is_stacked: Whether the series are shares of a whole.
        limits: Dashed lines, by their height: colours.
        overrides: See `Panel`.
        width: See `Panel`.
        is_from_zero: Whether the axis begins at zero.
    """
    custom: Json = {"fillOpacity": 40 if is_stacked else 8, "lineWidth": 1, "showPoints": "never", "spanNulls": False}
    if is_stacked:
        custom["stacking"] = {"group": "A", "mode": "normal"}
    if limits:
        custom["thresholdsStyle"] = {"mode": "dashed"}
    defaults: Json = {"custom": custom, "thresholds": _thresholds(limits or {})}
    if is_from_zero:
        defaults["min"] = 0
    options = {
        "legend": {"calcs": ["lastNotNull"], "displayMode": "table", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return Panel(title, description, queries, unit, width, 8, "timeseries", defaults, options, overrides or {})


def number(
    title: str,
    description: str,
    query: Query,
    *,
    unit: str = "short",
    limits: Mapping[float, str] | None = None,
    first_colour: str = GREEN,
    width: int = 4,
) -> Panel:
    """Return the newest value in large letters; `limits` are the colours from a value on, `first_colour` is below."""
    defaults = {"thresholds": _thresholds(limits or {}, first_colour)}
    options = {
        "colorMode": "value",
        "graphMode": "area",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    }
    return Panel(title, description, [query], unit, width, 4, "stat", defaults, options)


def heat(title: str, description: str, query: Query, *, unit: str, width: int = 8) -> Panel:
    """Return a histogram over time; the query's series are its buckets."""
    options = {
        "calculate": False,
        "cellGap": 1,
        "color": {"mode": "scheme", "scheme": "Blues", "steps": 32},
        "yAxis": {"unit": unit},
    }
    return Panel(title, description, [query], unit, width, 8, "heatmap", {}, options)


def lanes(title: str, description: str, query: Query, *, width: int = 24, height: int = 7) -> Panel:
    """Return a lane for each series, coloured where it is 1."""
    states = {"0": {"color": "transparent", "text": " "}, "1": {"color": BLUE, "text": "now"}}
    defaults = {
        "custom": {"fillOpacity": 80, "lineWidth": 0},
        "mappings": [{"options": states, "type": "value"}],
        "thresholds": _thresholds({}),
    }
    options = {"mergeValues": True, "rowHeight": 0.8, "showValue": "never", "legend": {"showLegend": False}}
    return Panel(title, description, [query], "short", width, height, "state-timeline", defaults, options)


def words(title: str, description: str, query: Query, *, hidden: Sequence[str] = (), width: int = 24) -> Panel:
    """Return a table of labels, one line per series; `hidden` are labels, besides time and value, left out."""
    dropped = dict.fromkeys(("Time", "Value", *hidden), True)
    transformation = {"id": "organize", "options": {"excludeByName": dropped, "indexByName": {}, "renameByName": {}}}
    options = {"cellHeight": "sm", "showHeader": True}
    return Panel(title, description, [query], "short", width, 6, "table", {}, options, transformations=[transformation])


def _target(index: int, query: Query, kind: str) -> Json:
    shape = {"table": "table", "heatmap": "heatmap"}.get(kind, "time_series")
    return {
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": query.expression,
        "format": shape,
        "instant": query.is_now,
        "legendFormat": query.legend or "__auto",
        "range": not query.is_now,
        "refId": chr(ord("A") + index),
    }


def _thresholds(limits: Mapping[float, str], first_colour: str = GREEN) -> Json:
    steps: list[Json] = [{"color": first_colour, "value": None}]
    steps += [{"color": colour, "value": value} for value, colour in sorted(limits.items())]
    return {"mode": "absolute", "steps": steps}


def _override(name: str, fields: Mapping[str, Any]) -> Json:
    properties = [{"id": key, "value": value} for key, value in fields.items()]
    return {"matcher": {"id": "byName", "options": name}, "properties": properties}
