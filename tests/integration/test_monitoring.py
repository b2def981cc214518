# SPDX-License-Identifier: Apache-2.0
"""Dashboards, alerts and their documentation, against a real service, a real job and a real Prometheus."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ringtune import _engine
from ringtune.dashboards.grafana import dashboards
from ringtune.dashboards.grafana.panels import Panel, Query
from tests.contract.service.requests import STUDY_BODY, UUIDS
from tests.integration.jobs import REPOSITORY, launched, started
from tests.integration.ports import free_ports
from tests.integration.prometheus_process import WINDOW, Prometheus, prometheus
from tests.integration.quick_tuning import QUICK
from tests.integration.scrapes import Scrape, promtool, scrape, scrape_until
from tests.integration.service.server_process import serving

ALERTS = REPOSITORY / "dashboards/prometheus/alerts.yml"
PAGE = REPOSITORY / "docs/howto/monitoring.md"
PANELS = [
    pytest.param(panel, id=f"{name.partition('.')[0]}: {panel.title}")
    for name, dashboard in dashboards().items()
    for panel in dashboard.panels
]
OF_PROMETHEUS = {"up": {"job", "instance"}}
"""Prometheus's own series, and the labels that it puts on everything that it scrapes."""
CONFIG_PREFIX = "ringtune_config_"
OF_EVERY_RANK = {"training_job", "model", "host", "rank", "local_rank"}
MAY_BE_EMPTY = {
    "Errors by status": "nothing failed",
    "Time per suggestion": "this service's optimizer is off, and the job's search is over",
    "Optimizer at work": "it is off",
    "Time left": "the tuning run is over",
    "Samples of the phase": "how many there will be is not known of a watch",
    "Pay-back": "nothing may have been adopted",
    "Speed-up": "there may have been nothing to test",
    "Speed-up with its interval": "likewise",
}
MAY_BE_PENDING = {"RingtuneSlowReads": "one read in a hundred may take 20 ms where tests share two cores"}
ANOTHER_JOB = {"hardware": "c" * 64, "model_fingerprint": "d" * 64, "world_size": "8", "target": "ringtune"}
METRIC = re.compile(r"\b(ringtune_\w+|up)\b")
SELECTOR = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GROUPED = re.compile(r"\b(?:by|on|without|group_left)\s*\(([^)]*)\)")
LEGEND = re.compile(r"\{\{(\w+)\}\}")
ROW = re.compile(r"^\| `(ringtune_\w+)(?:\{([a-z_,]*)\})?` \|", re.MULTILINE)


@dataclass(frozen=True)
class Watched:
    """A service, and a job of two ranks that the tuner is done with; Prometheus has scraped both for a while.

    Attributes:
        service: Metrics that the service shows.
        ranks: Metrics that each rank shows.
        prometheus: Knows both.
    """

    service: Scrape
    ranks: tuple[Scrape, Scrape]
    prometheus: Prometheus

    @property
    def scrapes(self) -> tuple[Scrape, ...]:
        """All of them."""
        return (self.service, *self.ranks)

    def labels(self) -> dict[str, set[str]]:
        """Return the labels of every series and every metric, by name."""
        found: dict[str, set[str]] = {name: set(labels) for name, labels in OF_PROMETHEUS.items()}
        for family in (family for one in self.scrapes for family in one.families.values()):
            found.setdefault(family.name, set() if family.samples else set(OF_EVERY_RANK))
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        return found


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """All of them, running."""
    folder = tmp_path_factory.mktemp("watched")
    port = free_ports(2)
    stop = folder / "stop"
    with serving(folder) as service:
        study = service.client.post("/v1/studies", json=STUDY_BODY).raise_for_status().json()
        ask = {"trial_id": UUIDS[0], "job_id": UUIDS[1]}
        service.client.post(f"/v1/studies/{study['id']}/suggestions", json=ask).raise_for_status()
        environ = {**QUICK, "AUTOTUNE_SERVICE_URL": service.url, "RINGTUNE_METRICS_PORT": str(port)}
        environ["XDG_CACHE_HOME"] = str(folder)
        with started(launched(2, "watched", str(stop)), environ) as job:
            addresses = [f"127.0.0.1:{port + rank}" for rank in range(2)]
            targets = {"ringtune": [service.url.removeprefix("http://")], "ringtune-jobs": addresses}
            try:
                with prometheus(folder, targets) as server:
                    urls = [f"{service.url}/metrics", *(f"http://{address}/metrics" for address in addresses)]
                    shown = scrape_until(urls[0], lambda one: one.value("ringtune_tells_total"))
                    first = scrape_until(urls[1], lambda one: one.value("ringtune_tuner_runs_total"))
                    server.wait_for("ringtune_recommendations_total")
                    service.client.get("/v1/recommendations", params=ANOTHER_JOB).raise_for_status()
                    server.wait_for(f"sum(rate(ringtune_recommendations_total[{WINDOW}])) > 0")
                    server.wait_for(f"rate(ringtune_tells_total[{WINDOW}])")
                    server.wait_for("sum(ringtune_tuner_runs_total) > 0")
                    server.wait_for(f"count(rate(ringtune_engine_steps_total[{WINDOW}])) == 2")
                    yield Watched(shown, (first, scrape(urls[2])), server)
            finally:
                stop.touch()
                finished = job.wait()
    assert 0 == finished.code, finished.text


def filled_in(expression: str) -> str:
    """Return an expression as Grafana asks it, with everything chosen."""
    return re.sub(r"\$[a-z_]+", ".*", expression.replace("$__rate_interval", WINDOW))


def alert_expressions() -> dict[str, str]:
    """Return the expressions of all alerts."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def unknown_names(queries: list[Query], known: dict[str, set[str]]) -> set[str]:
    """Return the names in queries and their legends that no program shows."""
    wrong = set()
    for query in queries:
        names = set(METRIC.findall(query.expression))
        text = re.sub(r'"[^"]*"', '"', query.expression.replace('="', '=""'))
        used = set(SELECTOR.findall(query.expression)) | set(LEGEND.findall(query.legend))
        used |= {label.strip() for group in GROUPED.findall(text) for label in group.split(",")}
        labels = {"job", "instance"}.union(*(known.get(name, set()) for name in names))
        wrong |= {name for name in names if name not in known} | (used - labels)
    return wrong


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_names_only_what_the_programs_show(panel: Panel, watched: Watched) -> None:
    """Metrics, labels in selectors, groups and legends."""
    assert set() == unknown_names(list(panel.queries), watched.labels())


def test_alerts_name_only_what_the_programs_show(watched: Watched) -> None:
    """Every metric in an alert is one that the programs show."""
    queries = [Query(expression) for expression in alert_expressions().values()]

    assert set() == unknown_names(queries, watched.labels())


def test_names_that_no_program_shows_are_found(watched: Watched) -> None:
    """A metric, a label in a selector, in a group, and in a legend that are misspelt."""
    queries = [
        Query("ringtune_engine_stops_total"),
        Query('ringtune_engine_steps_total{rang="0"}'),
        Query("sum by (ranc) (ringtune_engine_steps_total)"),
        Query("ringtune_engine_steps_total", "{{rnk}}"),
    ]

    assert {"ringtune_engine_stops_total", "rang", "ranc", "rnk"} == unknown_names(queries, watched.labels())


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_has_data(panel: Panel, watched: Watched) -> None:
    """Prometheus evaluates each expression; only panels of rare events may be empty."""
    answers = [watched.prometheus.query(filled_in(query.expression)) for query in panel.queries]

    assert all(answers) or panel.title in MAY_BE_EMPTY


def test_what_may_be_empty_is_there() -> None:
    """No exception is left of a panel that is gone."""
    assert set(MAY_BE_EMPTY) <= {param.values[0].title for param in PANELS if isinstance(param.values[0], Panel)}


def test_no_alert_fires_while_all_is_well(watched: Watched) -> None:
    """Prometheus has read the rules; no alert is even pending, but for those of a busy machine."""
    known, alerts = watched.prometheus.query("count(ALERTS) or vector(0)"), watched.prometheus.alerts()

    assert 1 == len(known)
    assert set() == set(alerts) - set(MAY_BE_PENDING)
    assert "firing" not in alerts.values()


def test_what_may_be_pending_is_there() -> None:
    """No exception is left of an alert that is gone."""
    assert set(MAY_BE_PENDING) <= set(alert_expressions())


def test_promtool_takes_every_query_for_one(tmp_path: Path) -> None:
    """Each panel's expression, written as a rule of its own."""
    panels = [panel for dashboard in dashboards().values() for panel in dashboard.panels]
    expressions = [filled_in(query.expression) for panel in panels for query in panel.queries]
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(expressions)]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")

    output = promtool("check", "rules", str(file))

    assert f"{len(expressions)} rules found" in output
    file.write_text(file.read_text(encoding="utf-8").replace("sum by", "sum bye"), encoding="utf-8")
    with pytest.raises(AssertionError, match="parse error"):
        promtool("check", "rules", str(file))


def test_promtool_takes_the_rules_and_their_own_tests_pass() -> None:
    """Each alert fires when it should, and not before; none is without a test."""
    folder = ALERTS.parent

    promtool("check", "rules", str(ALERTS))
    promtool("check", "config", "--syntax-only", str(folder / "prometheus.yml"))
    output = promtool("test", "rules", str(folder / "alerts_test.yml"))

    assert "SUCCESS" in output
    tests = yaml.safe_load((folder / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case.get("exp_alerts")}
    assert set(alert_expressions()) == fired


def test_the_page_explains_every_alert() -> None:
    """The page's table has every alert by name."""
    text = PAGE.read_text(encoding="utf-8")

    assert set(alert_expressions()) == set(re.findall(r"^\| `(Ringtune\w+)` \|", text, re.MULTILINE))


def shown_metrics(watched: Watched) -> dict[str, set[str]]:
    """Return the metrics that the programs show, with their own labels.

    Left out are labels that all series of a job have, and when prometheus-client's own counters began.
    """
    shown: dict[str, set[str]] = {}
    for one in watched.scrapes:
        for family in (family for family in one.families.values() if not family.name.endswith("_created")):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels}
            shown.setdefault(name, set()).update(labels - OF_EVERY_RANK - {"le"})
    return shown


def test_every_knob_of_the_engine_is_shown(watched: Watched) -> None:
    """A knob is a label of the config in force, and a gauge of its own where it is a number or a switch."""
    shown = shown_metrics(watched)

    gauges = [knob.name.replace("_ms", "_seconds") for knob in _engine.KNOBS if not isinstance(knob.default, str)]
    assert {knob.name for knob in _engine.KNOBS} == shown["ringtune_config_info"]
    assert {f"ringtune_config_{name}" for name in (*gauges, "info", "epoch")} == {
        name for name in shown if name.startswith(CONFIG_PREFIX)
    }


def test_the_page_lists_every_metric_with_its_labels(watched: Watched) -> None:
    """The page lists the programs' metrics, no more and no less; the knobs' metrics have one row for all."""
    listed = {name: set(filter(None, labels.split(","))) for name, labels in ROW.findall(PAGE.read_text("utf-8"))}
    shown = shown_metrics(watched)

    knobs = {name for name in shown if name.startswith(CONFIG_PREFIX)} - {"ringtune_config_epoch"}
    assert {name: labels for name, labels in shown.items() if name not in knobs} == listed
