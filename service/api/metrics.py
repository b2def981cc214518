# SPDX-License-Identifier: Apache-2.0
"""Metrics for operators: requests by route and status, and queues, for Prometheus.

Series are bounded, whatever methods and paths clients invent; prometheus-fastapi-instrumentator has one per method.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ringtune.service.domain.service import Service
from ringtune.service.errors import ServiceError

from .listeners import Listeners
from .peers import CountedConnections

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
ROUTE_KEY = "ringtune.route"
UNKNOWN_ROUTE = "unknown"
KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})


class Metrics:
    """The process's counters, in a registry of their own."""

    def __init__(self, service: Service, listeners: Listeners) -> None:
        """Count from zero; the load is asked of `service` when the metrics are read."""
        self.registry = CollectorRegistry()
        labels = ("method", "route")
        self._requests = Counter("ringtune_requests", "Requests answered.", (*labels, "status"), registry=self.registry)
        self._latency = Histogram(
            "ringtune_request_seconds",
            "From the request's head to the reply's end.",
            labels,
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.at_work = Gauge("ringtune_requests_at_work", "Requests being answered.", registry=self.registry)
        self.asks = Counter("ringtune_asks", "Suggestions given.", registry=self.registry)
        self.tells = Counter("ringtune_tells", "Results by what became of them.", ("status",), registry=self.registry)
        self.recommendations = Counter(
            "ringtune_recommendations",
            "Recommendations by source, without the cache's.",
            ("source",),
            registry=self.registry,
        )
        self.cache_hits = Counter("ringtune_cache_hits", "Recommendations out of the cache.", registry=self.registry)
        listening = Gauge("ringtune_events_listeners", "Clients of /v1/events, and live pages.", registry=self.registry)
        listening.set_function(lambda: listeners.count)
        self.connections_accepted = Counter(
            "ringtune_connections_accepted", "Connections accepted.", registry=self.registry
        )
        self.connections_closed = Counter(
            "ringtune_connections_closed", "Connections that the service closed.", ("reason",), registry=self.registry
        )
        self.registry.register(_LoadCollector(service))

    def watch_connections(self, places: CountedConnections, reasons: Iterable[str]) -> None:
        """Show the open connections from now on, and of each reason to close one how many were, 0 at first."""
        for reason in reasons:
            self.connections_closed.labels(reason)
        words = "Open connections: known ones had a valid token."
        gauge = Gauge("ringtune_connections", words, ("who",), registry=self.registry)
        gauge.labels("known").set_function(lambda: places.known)
        gauge.labels("stranger").set_function(lambda: places.strangers)
        bound = Gauge("ringtune_connections_max", "Connections that may be open.", registry=self.registry)
        bound.set(places.limits.connections_max)

    def answered(self, method: str, route: str, status: int, elapsed_s: float) -> None:
        """Count one reply."""
        known = method if method in KNOWN_METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._latency.labels(known, route).observe(elapsed_s)

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self.registry)


class _LoadCollector(Collector):
    """Asks the domain for its load, at the moment the metrics are read."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        """Return no metrics: registering must not ask the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the figures, or that the database does not answer."""
        try:
            load = self._service.load()
        except ServiceError:
            yield GaugeMetricFamily("ringtune_database_up", "Whether the database answers.", value=0)
            return
        yield GaugeMetricFamily("ringtune_database_up", "Whether the database answers.", value=1)
        gauges = (
            ("queued_results", "Results that wait for their commit.", load.queued_results),
            ("live_leases", "Trials under a lease.", load.live_leases),
            ("queued_suggestions", "Suggestions ready to be asked for.", load.queued_suggestions),
            ("database_connections", "Database connections in use.", load.connections),
            ("design_workers", "Processes of the optimizer.", load.design_workers),
            ("page_sessions", "Browsers that are signed in.", load.page_sessions),
        )
        for name, words, value in gauges:
            yield GaugeMetricFamily(f"ringtune_{name}", words, value=value)
        yield CounterMetricFamily("ringtune_designs", "Suggestions computed.", value=load.designs)
        yield CounterMetricFamily("ringtune_design_seconds", "What computing them took.", value=load.design_s)
