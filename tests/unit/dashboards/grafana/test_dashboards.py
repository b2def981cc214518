# SPDX-License-Identifier: Apache-2.0
"""Grafana's dashboards: the generator's output is committed, and every panel can be read and understood."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ringtune.dashboards.grafana import Dashboard, dashboards
from ringtune.dashboards.grafana.__main__ import main
from ringtune.dashboards.grafana.dashboard import COLUMNS
from ringtune.dashboards.grafana.service import MAX_CONNECTIONS, MAX_QUEUED_RESULTS
from ringtune.service.domain.policy import ServiceLimits
from ringtune.service.store import database

FOLDER = Path(__file__).resolve().parents[4] / "dashboards" / "grafana"
ALERTS = FOLDER.parent / "prometheus" / "alerts.yml"
UNITS = {"short", "s", "bytes", "Bps", "reqps", "ops", "percentunit"}
DASHBOARDS = dashboards()
each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)


def panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    """Return the panels as Grafana reads them, rows included."""
    found: list[dict[str, Any]] = json.loads(dashboard.text())["panels"]
    return found


def test_the_committed_dashboards_are_what_the_generator_writes(tmp_path: Path) -> None:
    """`make dashboards` leaves the committed files unchanged."""
    assert 0 == main([str(tmp_path)])

    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    committed = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert written == committed


def test_a_folder_that_is_not_there_is_our_callers_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and how it is called."""
    assert (2, 2) == (main([]), main([str(tmp_path / "missing")]))

    assert 2 == capsys.readouterr().err.count("usage:")


@each_dashboard
def test_every_panel_says_what_it_shows(dashboard: Dashboard) -> None:
    """A title that is used once, a description in whole sentences, a unit that Grafana knows."""
    titles = [panel.title for panel in dashboard.panels]

    assert len(titles) == len(set(titles))
    assert [] == [panel.title for panel in dashboard.panels if not re.fullmatch(r"[A-Z0-9].{29,}\.", panel.description)]
    assert {panel.unit for panel in dashboard.panels} <= UNITS


@each_dashboard
def test_panels_lie_beside_each_other(dashboard: Dashboard) -> None:
    """No two share a cell of the grid, none is wider than it; numbers are used once."""
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels(dashboard))
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert COLUMNS - 1 == max(x for x, _ in cells)
    numbers = [panel["id"] for panel in panels(dashboard)]
    assert len(numbers) == len(set(numbers))


@each_dashboard
def test_every_choice_is_used_and_exists(dashboard: Dashboard) -> None:
    """Queries name no variable that the head does not have, and every variable of the head is in a query."""
    text = json.dumps([dashboard.to_json()["panels"], [variable.to_json() for variable in dashboard.variables]])
    used = set(re.findall(r"\$\{?([a-z_]+)", text))

    assert {"datasource", *(variable.name for variable in dashboard.variables)} == used - {
        "__rate_interval",
        "__all",
    } - {""}


def test_the_limits_are_the_services_own() -> None:
    """Thresholds and alerts speak of the queue and the pool that the service has."""
    text = ALERTS.read_text(encoding="utf-8")

    assert ServiceLimits().max_queued_results == MAX_QUEUED_RESULTS
    assert database.MAX_CONNECTIONS == MAX_CONNECTIONS
    assert f"ringtune_queued_results > {round(0.8 * MAX_QUEUED_RESULTS)}\n" in text
    assert f"ringtune_database_connections >= {MAX_CONNECTIONS}\n" in text
    assert f"of {MAX_QUEUED_RESULTS} results" in text
    assert f"All {MAX_CONNECTIONS} database connections" in text
