# SPDX-License-Identifier: Apache-2.0
"""The dashboard for operators of the service: is it well, its requests by caller, and where does it wait."""

from .dashboard import Dashboard, DashboardVariable, PanelRow
from .panels import AMBER, RED, Query, heat, number, over_time

HERE = 'instance=~"$instance"'
READS = f'{HERE},method="GET",route=~"/v1/.*",route!~"/v1/(events|export)"'
WRITES = f'{HERE},method=~"POST|PUT|DELETE",route!~"/v1/(import|runs)"'
MAX_QUEUED_RESULTS = 20_000
MAX_CONNECTIONS = 8
"""Both are the service's own limits; a test holds them against it."""
SLOW_READ_S = 0.02
QUANTILES = (0.5, 0.95, 0.99)


def service_dashboard() -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        uid="ringtune-service",
        title="Ringtune service",
        description="The shared service, for operators: health, requests, the writer, suggestions, the database.",
        variables=[DashboardVariable("instance", "Instance", "ringtune_requests_at_work", "instance")],
        rows=[_health(), _requests(), _recommendations(), _suggestions(), _writer(), _connections()],
    )


def _health() -> PanelRow:
    rate = f"rate(ringtune_requests_total{{{HERE}}}[$__rate_interval])"
    errors = f'rate(ringtune_requests_total{{{HERE},status=~"5.."}}[$__rate_interval])'
    return PanelRow(
        "Health",
        [
            number(
                "Instances that answer",
                "Processes that were scraped just now. Fewer than you run: look at the log of the one that is missing.",
                Query(f"count(ringtune_requests_at_work{{{HERE}}})"),
                limits={1: "green"},
                first_colour=RED,
            ),
            number(
                "Database",
                "1 where every instance reaches its database. At 0, requests are answered 503 and jobs keep their "
                "results until they can deliver them.",
                Query(f"min(ringtune_database_up{{{HERE}}})"),
                limits={1: "green"},
                first_colour=RED,
            ),
            number(
                "Requests per second",
                "Requests answered, all routes together.",
                Query(f"sum({rate})"),
                unit="reqps",
            ),
            number(
                "Server errors",
                "Share of requests answered with 5xx. 503 means overload or a database that is away; 500 is a defect.",
                Query(f"(sum({errors}) or vector(0)) / (sum({rate}) > 0)"),
                unit="percentunit",
                limits={0.001: AMBER, 0.01: RED},
            ),
            number(
                "Reads, 99th percentile",
                "What 99 of 100 reads stay below; above 20 ms jobs begin to notice at their start.",
                Query(_quantile(0.99, READS)),
                unit="s",
                limits={SLOW_READ_S / 2: AMBER, SLOW_READ_S: RED},
            ),
            number(
                "Writer's queue",
                "How full the queue of results that wait for their commit is. At 100 % results are answered 503.",
                Query(f"max(ringtune_queued_results{{{HERE}}}) / {MAX_QUEUED_RESULTS}"),
                unit="percentunit",
                limits={0.5: AMBER, 0.8: RED},
            ),
        ],
    )


def _requests() -> PanelRow:
    counts = f"ringtune_requests_total{{{HERE}}}"
    failures = f'ringtune_requests_total{{{HERE},status=~"[45].."}}'
    buckets = f"ringtune_request_seconds_bucket{{{READS}}}"
    return PanelRow(
        "Requests",
        [
            over_time(
                "Rate by route",
                "Requests answered per second. `unknown` is what matches no route.",
                Query(f"sum by (method, route) (rate({counts}[$__rate_interval]))", "{{method}} {{route}}"),
                unit="reqps",
            ),
            over_time(
                "Errors by status",
                "401, 403: a token is missing or revoked. 409: two reports of one trial. 429: one token asks too much. "
                "503: overload, or the database is away.",
                Query(f"sum by (status) (rate({failures}[$__rate_interval]))", "{{status}}"),
                unit="reqps",
            ),
            over_time(
                "At work and listening",
                "Requests being answered, against RINGTUNE_SERVICE_REQUESTS_MAX, and listeners to /v1/events.",
                Query(f"sum by (instance) (ringtune_requests_at_work{{{HERE}}})", "at work, {{instance}}"),
                Query(f"sum by (instance) (ringtune_events_listeners{{{HERE}}})", "listening, {{instance}}"),
            ),
            over_time(
                "Latency of reads",
                "Quantiles over all GET requests but events and export. The dashed line is where an alert begins.",
                *(Query(_quantile(q, READS), f"p{100 * q:g}") for q in QUANTILES),
                unit="s",
                limits={SLOW_READ_S: RED},
            ),
            over_time(
                "Latency of writes",
                "Quantiles over POST, PUT and DELETE but whole logs and imports. A write is answered once durable.",
                *(Query(_quantile(q, WRITES), f"p{100 * q:g}") for q in QUANTILES),
                unit="s",
            ),
            heat(
                "Reads by duration",
                "How many reads took how long. Two bands are two kinds: answered from memory, and from the database.",
                Query(f"sum by (le) (increase({buckets}[$__rate_interval]))", "{{le}}"),
                unit="s",
            ),
        ],
    )


def _recommendations() -> PanelRow:
    hits = f"sum(rate(ringtune_cache_hits_total{{{HERE}}}[$__rate_interval]))"
    computed = f"sum(rate(ringtune_recommendations_total{{{HERE}}}[$__rate_interval]))"
    return PanelRow(
        "Recommendations",
        [
            over_time(
                "Recommendations by source",
                "Computed per second, without those from memory. `exact`: this very study is known; `nearest`: a "
                "similar one; `default`: nothing is known. Much `default` is a fleet that has not reported yet.",
                Query(
                    f"sum by (source) (rate(ringtune_recommendations_total{{{HERE}}}[$__rate_interval]))", "{{source}}"
                ),
                unit="reqps",
                width=12,
            ),
            over_time(
                "Answered from memory",
                "Share of recommendations out of the cache. Low is normal when every job asks something else.",
                Query(f"({hits} or vector(0)) / (({hits} or vector(0)) + ({computed} or vector(0)) > 0)", "hits"),
                unit="percentunit",
                width=12,
            ),
        ],
    )


def _suggestions() -> PanelRow:
    designs = f"rate(ringtune_designs_total{{{HERE}}}[$__rate_interval])"
    design_s = f"rate(ringtune_design_seconds_total{{{HERE}}}[$__rate_interval])"
    return PanelRow(
        "Suggestions and results",
        [
            over_time(
                "Asked and told",
                "Suggestions given, and results by what became of them: `new` and, when repeated, `same` are in order; "
                "`late` came after its lease; `quarantined` is hardly true and is not used; `refused` cannot be true.",
                Query(f"sum(rate(ringtune_asks_total{{{HERE}}}[$__rate_interval]))", "asked"),
                Query(f"sum by (status) (rate(ringtune_tells_total{{{HERE}}}[$__rate_interval]))", "told, {{status}}"),
                unit="reqps",
                width=6,
            ),
            over_time(
                "Leases and suggestions in stock",
                "Trials that a job measures now, and suggestions ready to be asked for.",
                Query(f"sum(ringtune_live_leases{{{HERE}}})", "leases"),
                Query(f"sum(ringtune_queued_suggestions{{{HERE}}})", "in stock"),
                width=6,
            ),
            over_time(
                "Time per suggestion",
                "What the optimizer takes to compute one, in a process of its own; no request waits for it.",
                Query(f"sum({design_s}) / (sum({designs}) > 0)", "mean"),
                unit="s",
                width=6,
            ),
            over_time(
                "Optimizer at work",
                "Share of the optimizer's processes that compute. Lastingly near 100 %: raise "
                "RINGTUNE_SERVICE_DESIGN_WORKERS.",
                Query(f"sum({design_s}) / (sum(ringtune_design_workers{{{HERE}}}) > 0)", "busy"),
                unit="percentunit",
                limits={0.8: AMBER},
                width=6,
            ),
        ],
    )


def _writer() -> PanelRow:
    return PanelRow(
        "Writer and database",
        [
            over_time(
                "Results that wait for their commit",
                "The writer commits many at once, so that some wait always. It grows where the disk is slow.",
                Query(f"sum by (instance) (ringtune_queued_results{{{HERE}}})", "{{instance}}"),
                limits={0.8 * MAX_QUEUED_RESULTS: RED},
                width=12,
            ),
            over_time(
                "Database connections in use",
                f"Of {MAX_CONNECTIONS} in each instance's pool. Lastingly at the limit: requests wait for one.",
                Query(f"sum by (instance) (ringtune_database_connections{{{HERE}}})", "{{instance}}"),
                limits={MAX_CONNECTIONS: RED},
                width=12,
            ),
        ],
    )


def _connections() -> PanelRow:
    return PanelRow(
        "Connections and sessions",
        [
            over_time(
                "Open connections",
                "Known ones have sent a token or a health check. At the limit the oldest stranger makes room.",
                Query(f"sum by (instance, who) (ringtune_connections{{{HERE}}})", "{{instance}}: {{who}}"),
                Query(f"max by (instance) (ringtune_connections_max{{{HERE}}})", "{{instance}}: limit"),
            ),
            over_time(
                "Connections closed by the service",
                "Per second, by reason. A crowd of strangers shows here before it shows in the latency.",
                Query(
                    f"sum by (reason) (rate(ringtune_connections_closed_total{{{HERE}}}[$__rate_interval]))",
                    "{{reason}}",
                ),
                unit="short",
            ),
            over_time(
                "Browsers signed in",
                "Sessions of people at the pages; they end by sign-out, age and disuse.",
                Query(f"sum by (instance) (ringtune_page_sessions{{{HERE}}})", "{{instance}}"),
            ),
        ],
    )


def _quantile(quantile: float, selected: str) -> str:
    buckets = f"ringtune_request_seconds_bucket{{{selected}}}"
    return f"histogram_quantile({quantile:g}, sum by (le) (rate({buckets}[$__rate_interval])))"
