# SPDX-License-Identifier: Apache-2.0
"""A thousand simulated jobs: each asks for its start, tunes under leases, reports, and repeats some reports.

Afterwards the ledger is read: each acknowledged result must be there once, under the job and the study that sent it.
"""

import asyncio
import itertools
import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import uvloop
from sqlalchemy import text

from ringtune.service.store import Database, reports
from ringtune.tuner import Config, search_space
from ringtune.tuner.space.parameters import default_config

from .client import ClientConnection, Observed, request
from .filling import BASELINE_MS, SEED, TENSOR_BYTES, Known, query_of, result_body

JOBS = 1000
STUDIES = 100
"""Number of studies that the jobs share, all new."""
PAUSE_S = 8.0
"""Mean pause between two reports of a job, seconds."""
BATCH = 4
REPEATED = 0.1
"""Share of the reports that are sent twice, as after a lost reply."""
LOOK_S = 0.5
"""Seconds between two looks at the database's connections."""
BUSY = frozenset({429, 503})
COUNT_CONNECTIONS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND backend_type = 'client backend'"
)


@dataclass
class Told:
    """Results that jobs sent, and those that the service acknowledged.

    Attributes:
        sent: The job and the study of each trial.
        acknowledged: Trials whose result was answered as kept.
        studies: Ids, as the service gave them.
    """

    sent: dict[str, tuple[str, str]] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    studies: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class LedgerVerdict:
    """Counts of faults in the ledger, and the most connections that the database had."""

    lost: int
    doubled: int
    crossed: int
    invented: int
    kept: int
    connections: int

    def __str__(self) -> str:
        """Return it in words."""
        wrong = f"{self.lost} lost, {self.doubled} doubled, {self.crossed} crossed, {self.invented} invented"
        return f"{JOBS} jobs: {self.kept} results, {wrong}; {self.connections} database connections at most"


class SimulatedJob:
    """One job on one connection."""

    def __init__(self, number: int, known: Known, told: Told, observed: Observed) -> None:
        """Be the job with this number, of a study's key."""
        self._rng = random.Random(SEED + number)  # noqa: S311  (a pace, no secret)
        self._job_id = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        self._known = known
        self._told = told
        self._observed = observed
        self._study_id = ""

    async def run(self, port: int, end_s: float) -> None:
        """Work until the time is over."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(PAUSE_S * self._rng.random())  # jobs do not start together
        _, connection = await loop.create_connection(ClientConnection, "127.0.0.1", port)
        try:
            await self._call(connection, "GET", f"/v1/recommendations?{query_of(self._known.key)}")
            self._study_id = (await self._call(connection, "POST", "/v1/studies", self._study()))["id"]
            self._told.studies.add(self._study_id)
            await self._report(connection, default_config(), "baseline", BATCH)
            while time.perf_counter() < end_s:
                await asyncio.sleep(PAUSE_S * (0.5 + self._rng.random()))
                await self._tune(connection)
        finally:
            connection.close()

    async def _tune(self, connection: ClientConnection) -> None:
        """Ask for a config, measure it, and report under its lease."""
        trial_id = self._new_id()
        path = f"/v1/studies/{self._study_id}/suggestions"
        suggestion = await self._call(connection, "POST", path, {"trial_id": trial_id, "job_id": self._job_id})
        config, token = Config(suggestion["config"]), suggestion["lease"]["fencing_token"]
        measured = {**self._result(config, "search"), "fencing_token": token}
        self._told.sent[trial_id] = self._job_id, self._study_id
        path = f"/v1/studies/{self._study_id}/trials/{trial_id}/result"
        for _ in range(1 + (self._rng.random() < REPEATED)):
            stored = await self._call(connection, "PUT", path, measured)
            self._note([stored])
        await self._report(connection, config, "search", BATCH - 1)

    async def _report(self, connection: ClientConnection, config: Config, phase: str, windows: int) -> None:
        results = [{**self._result(config, phase), "trial_id": self._new_id()} for _ in range(windows)]
        self._told.sent.update({result["trial_id"]: (self._job_id, self._study_id) for result in results})
        for _ in range(1 + (self._rng.random() < REPEATED)):
            path = f"/v1/studies/{self._study_id}/results"
            self._note((await self._call(connection, "POST", path, {"results": results}))["items"])

    def _note(self, stored: Sequence[dict[str, Any]]) -> None:
        kept = {"new", "same", "late", "quarantined"}
        self._told.acknowledged.update(item["trial_id"] for item in stored if item["status"] in kept)

    async def _call(self, connection: ClientConnection, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Return the reply's value; a refusal with Retry-After is repeated."""
        wanted = request(method, path, body)
        while True:
            sent_s = time.perf_counter()
            reply = await connection.send(wanted)
            self._observed.note(reply.status, reply.head, time.perf_counter() - sent_s)
            if reply.status in BUSY:
                await asyncio.sleep(0.5 + self._rng.random())
            elif 200 <= reply.status < 300:
                value: dict[str, Any] = json.loads(reply.body)
                return value
            else:
                raise RuntimeError(f"{method} {path} was answered {reply.status}: {reply.body[:300]!r}")

    def _result(self, config: Config, phase: str) -> dict[str, Any]:
        step_ms = BASELINE_MS * self._rng.uniform(0.8, 1.2)
        return {**result_body(self._job_id, config, step_ms), "phase": phase}

    def _new_id(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def _study(self) -> dict[str, Any]:
        key = self._known.key
        space = search_space({}, default_config()).to_json()
        return {
            "key": {**vars(key), "layout": list(key.layout)},
            "search_space": space,
            "gradient_bytes": sorted(TENSOR_BYTES),
        }


def new_keys(known: Sequence[Known]) -> list[Known]:
    """Return keys that no study has yet, each time others."""
    models = [uuid.uuid4().hex * 2 for _ in range(STUDIES)]
    studies = itertools.islice(itertools.cycle(known), STUDIES)
    return [replace(study, key=replace(study.key, model=model)) for study, model in zip(studies, models, strict=True)]


def run_jobs(port: int, url: str, known: Sequence[Known], seconds: float) -> tuple[Observed, LedgerVerdict]:
    """Let jobs work against the service at a port for some seconds, then read the ledger."""
    reports, observed = Told(), Observed()
    database = Database.open(url)
    try:
        with _most_connections(database) as most, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_all_jobs(port, new_keys(known), seconds, reports, observed))
        return observed, _verdict(database, reports, most[0])
    finally:
        database.close()


async def _all_jobs(port: int, keys: Sequence[Known], seconds: float, told: Told, observed: Observed) -> None:
    begun_s = time.perf_counter()
    jobs = [SimulatedJob(number, keys[number % len(keys)], told, observed) for number in range(JOBS)]
    await asyncio.gather(*(job.run(port, begun_s + seconds) for job in jobs))
    observed.elapsed_s = time.perf_counter() - begun_s


def _verdict(database: Database, told: Told, connections: int) -> LedgerVerdict:
    stored: Counter[str] = Counter()
    crossed = 0
    with database.reading() as connection:
        for study_id in told.studies:
            for row in reports.of_study(connection, study_id):
                stored[row.trial_id] += 1
                crossed += told.sent.get(row.trial_id, (row.job_id, study_id)) != (row.job_id, study_id)
    return LedgerVerdict(
        lost=len(told.acknowledged - set(stored)),
        doubled=sum(times > 1 for times in stored.values()),
        crossed=crossed,
        invented=len(set(stored) - set(told.sent)),
        kept=len(stored),
        connections=connections,
    )


@contextmanager
def _most_connections(database: Database) -> Iterator[list[int]]:
    """Yield where the largest number of connections to a PostgreSQL stands once the block is left; 0 for SQLite."""
    most, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_S):
            with database.looking() as connection:
                most[0] = max(most[0], int(connection.execute(COUNT_CONNECTIONS).scalar_one()))

    watching = threading.Thread(target=look, daemon=True)
    if not database.is_sqlite:
        watching.start()
    try:
        yield most
    finally:
        ended.set()
        if watching.is_alive():
            watching.join()
