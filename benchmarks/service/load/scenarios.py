# SPDX-License-Identifier: Apache-2.0
"""Loads on the service: recommendations, results, batches, and five times its capacity."""

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .client import Observed, RequestLoad, cycled, drive, request
from .filling import BASELINE_MS, SEED, Known, candidates, job_id_of, query_of, result_body
from .jobs import run_jobs
from .server import Server

WARM_QUERIES = 64
CONNECTIONS = 16
REPORTING = 48
"""Connections that report: fewer than the requests that the service lets in."""
BATCHES = 4
BATCH = 1000
PACED_PER_S = 500.0
PACED_CONNECTIONS = 100
REPORTERS = 200
"""Jobs that report, each to a study of its own."""
BATCHED_STUDIES = 20
OVERLOAD = 5
OVERLOAD_CONNECTIONS = 1000
RECOVERY_P99_S = 0.1
RECOVERY_MAX_S = 30
NO_CACHE: Mapping[str, str] = {"RINGTUNE_SERVICE_CACHE_ENTRIES_MAX": "0"}
PLACE = "ffffffff"
"""In the ids of a prepared request: where its number goes."""


@dataclass(frozen=True)
class LoadRow:
    """One line of the table.

    Attributes:
        name: Name of the load.
        observed: Outcomes of its requests.
        server_cpu_s: Processor time of the service's process meanwhile, seconds.
        trials: Trials in each request that was answered 2xx; 0 where it has none.
        remark: Further findings.
    """

    name: str
    observed: Observed
    server_cpu_s: float
    trials: int = 0
    remark: str = ""


@dataclass(frozen=True)
class LoadScenario:
    """A load under settings of the service.

    Attributes:
        rows: Function that puts the load on the service for some seconds and yields its rows.
        variables: The service's settings besides the database's.
    """

    rows: Callable[[Server, Sequence[Known], float], Iterator[LoadRow]]
    variables: Mapping[str, str] = field(default_factory=dict)


def measured(name: str, server: Server, load: RequestLoad, *, trials: int = 0) -> LoadRow:
    """Put a load on the service and return its row."""
    before_s = server.cpu_s()
    observed = drive(server.port, load)
    return LoadRow(name, observed, server.cpu_s() - before_s, trials)


def _asking(queries: Sequence[str]) -> Callable[[], bytes]:
    return cycled([request("GET", f"/v1/recommendations?{query}") for query in queries])


def _shuffled(known: Sequence[Known]) -> list[Known]:
    order = np.random.default_rng(SEED).permutation(len(known))
    return [known[number] for number in order.tolist()]


def _warm(server: Server, known: Sequence[Known], seconds: float) -> Iterator[LoadRow]:
    load = RequestLoad(_asking([study.query for study in _shuffled(known)[:WARM_QUERIES]]), CONNECTIONS, seconds)
    yield measured(f"recommendations, {WARM_QUERIES} keys", server, load)


def _cold(server: Server, known: Sequence[Known], seconds: float) -> Iterator[LoadRow]:
    yield measured(
        "recommendations, no cache",
        server,
        RequestLoad(_asking([study.query for study in _shuffled(known)]), CONNECTIONS, seconds),
    )


def _nearest(server: Server, known: Sequence[Known], seconds: float) -> Iterator[LoadRow]:
    """Ask for layouts that no job measured."""
    queries = [query_of(replace(study.key, layout=(3,) * len(study.key.layout))) for study in _shuffled(known)]
    yield measured("recommendations, nearest, no cache", server, RequestLoad(_asking(queries), CONNECTIONS, seconds))


def _paced(server: Server, known: Sequence[Known], seconds: float) -> Iterator[LoadRow]:
    load = RequestLoad(_asking([study.query for study in _shuffled(known)]), PACED_CONNECTIONS, seconds, PACED_PER_S)
    yield measured(f"recommendations, all keys, {PACED_PER_S:.0f}/s offered", server, load)


def _results(server: Server, known: Sequence[Known], seconds: float) -> Iterator[LoadRow]:
    """Offer a fixed rate, independent of the replies."""
    offered = RequestLoad(_reporting(known), PACED_CONNECTIONS, seconds, PACED_PER_S)
    yield measured(f"results, {PACED_PER_S:.0f}/s offered", server, offered, trials=1)


def _eager(server: Server, known: Sequence[Known], seconds: float) -> Iterator[LoadRow]:
    """Let each job send its next result right after its last reply.

    It shows the highest rate. Its latency is the number of jobs divided by the rate.
    """
    name = f"results, {REPORTING} jobs at once, without a pause"
    yield measured(name, server, RequestLoad(_reporting(known), REPORTING, seconds), trials=1)


def _batches(server: Server, known: Sequence[Known], seconds: float) -> Iterator[LoadRow]:
    load = RequestLoad(_batching(known), BATCHES, seconds)
    yield measured(f"batches of {BATCH}, {BATCHES} jobs at once", server, load, trials=BATCH)


def _jobs(server: Server, known: Sequence[Known], seconds: float) -> Iterator[LoadRow]:
    before_s = server.cpu_s()
    observed, verdict = run_jobs(server.port, server.database_url, known, seconds)
    yield LoadRow("simulated jobs", observed, server.cpu_s() - before_s, remark=str(verdict))


def _overload(server: Server, known: Sequence[Known], seconds: float) -> Iterator[LoadRow]:
    """Find the peak and the normal latency below it, offer five times the peak, and measure the recovery."""
    requests = _reporting(known)
    peak = measured("results: peak", server, RequestLoad(requests, REPORTING, seconds), trials=1)
    yield peak
    usual_per_s = min(PACED_PER_S, peak.observed.good_per_s / 2)
    before = _usual("before", server, requests, seconds, usual_per_s)
    yield before
    rate_per_s = OVERLOAD * peak.observed.good_per_s
    over = measured(
        f"results: {OVERLOAD} x peak",
        server,
        RequestLoad(requests, OVERLOAD_CONNECTIONS, seconds, rate_per_s),
        trials=1,
    )
    share = over.observed.good_per_s / peak.observed.good_per_s
    yield replace(over, remark=f"goodput {100 * share:.0f} % of peak")
    normal_s = max(RECOVERY_P99_S, _p99_s(before.observed))
    for second in range(1, RECOVERY_MAX_S + 1):
        after = _usual("afterwards", server, requests, 1.0, usual_per_s)
        is_normal = {201} == set(after.observed.statuses) and _p99_s(after.observed) <= normal_s
        if is_normal or second == RECOVERY_MAX_S:
            yield replace(after, remark=f"{'normal' if is_normal else 'not normal'} after {second} s")
            return


def _usual(when: str, server: Server, requests: Callable[[], bytes], seconds: float, rate_per_s: float) -> LoadRow:
    """Put a bearable load on the service: the fixed rate, or half of the peak on a slower machine."""
    load = RequestLoad(requests, PACED_CONNECTIONS, seconds, rate_per_s)
    return measured(f"results: {when}, {rate_per_s:.0f}/s offered", server, load, trials=1)


def _p99_s(observed: Observed) -> float:
    return percentile(observed.latencies_s, 0.99)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of all lies, NaN without any."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


def _reporting(known: Sequence[Known]) -> Callable[[], bytes]:
    """Return a function that gives a result of a new trial, of one of `REPORTERS` jobs after the other."""
    configs = candidates()
    run = uuid.uuid4().hex[:8]
    prepared = []
    for number, study in enumerate(_shuffled(known)[:REPORTERS]):
        body = result_body(job_id_of(1000 + number), configs[number % len(configs)], BASELINE_MS)
        path = f"/v1/studies/{study.study_id}/trials/{PLACE}-0000-4000-8000-0000{run}/result"
        prepared.append(request("PUT", path, body))
    return _numbered(prepared)


def _batching(known: Sequence[Known]) -> Callable[[], bytes]:
    """Return a function that gives a batch of new results, of one job in one study."""
    configs = candidates()
    run = uuid.uuid4().hex[:8]
    prepared = []
    for number, study in enumerate(_shuffled(known)[:BATCHED_STUDIES]):
        job_id = job_id_of(2000 + number)
        results = [
            {
                **result_body(job_id, configs[index % len(configs)], BASELINE_MS + 0.01 * index),
                "trial_id": f"{PLACE}-{index:04x}-4000-8000-0000{run}",
            }
            for index in range(BATCH)
        ]
        prepared.append(request("POST", f"/v1/studies/{study.study_id}/results", {"results": results}))
    return _numbered(prepared)


def _numbered(prepared: Sequence[bytes]) -> Callable[[], bytes]:
    numbers = itertools.count()
    next_one = cycled(prepared)
    return lambda: next_one().replace(PLACE.encode(), b"%08x" % next(numbers))


SCENARIOS: Mapping[str, LoadScenario] = {
    "warm": LoadScenario(_warm),
    "cold": LoadScenario(_cold, NO_CACHE),
    "nearest": LoadScenario(_nearest, NO_CACHE),
    "paced": LoadScenario(_paced),
    "results": LoadScenario(_results),
    "eager": LoadScenario(_eager),
    "batches": LoadScenario(_batches),
    "jobs": LoadScenario(_jobs),
    "overload": LoadScenario(_overload),
}
