# SPDX-License-Identifier: Apache-2.0
"""Killed at named points: every acknowledged result is stored, every stored one was sent, each once.

A kill of the process does not show a loss of power: the system's memory survives it.
"""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.summary_updates import rebuild_all
from ringtune.service.domain.writer import POINTS
from ringtune.service.store import Database, reports, summaries
from tests.integration.service_store.readiness import Readiness
from tests.unit.service.domain.reported import study_of

PROGRAM = "tests.integration.service_store.programs.crash_while_reporting"
ROOT = Path(__file__).resolve().parents[3]
FEW_POINTS = ("before_commit", "committed")
PER_RUN = 60
KILLS = 200


@dataclass
class Record:
    """Results that clients sent and those that were acknowledged, over several runs of the program."""

    url: str
    study_id: str
    sent: set[str] = field(default_factory=set)
    acknowledged: list[tuple[str, str]] = field(default_factory=list)

    def run(self, point: str, count: int, numbers: range, mode: str = "durable") -> int:
        """Run the program over some trials and return its exit code."""
        arguments = [self.url, self.study_id, point, count, mode, numbers.start, numbers.stop]
        command = [sys.executable, "-m", PROGRAM, *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        for kind, trial_id, *status in (line.split() for line in done.stdout.splitlines()):
            if kind == "S":
                self.sent.add(trial_id)
            else:
                self.acknowledged.append((trial_id, status[0]))
        return done.returncode

    def losses(self, database: Database) -> dict[str, set[str]]:
        """Return the trials that are lost, stored twice, or were never sent."""
        with database.reading() as connection:
            stored = Counter(row.trial_id for row in reports.of_study(connection, self.study_id))
        return {
            "lost": {trial_id for trial_id, _ in self.acknowledged} - set(stored),
            "doubled": {trial_id for trial_id, times in stored.items() if times > 1},
            "invented": set(stored) - self.sent,
        }


NOTHING: dict[str, set[str]] = {"lost": set(), "doubled": set(), "invented": set()}
RecordProperty = Callable[[str, object], None]


def new_record(url: str, database: Database) -> Record:
    """Return an empty record of a new study."""
    return Record(url, study_of(Service(database, policy=ServiceLimits(design_workers=0))).study_id)


def check_after(record: Record, database: Database, numbers: range) -> None:
    """Repeat everything that was sent, without a kill: each is stored once, and derived rows fit."""
    assert NOTHING == record.losses(database)
    acknowledged = {trial_id for trial_id, _ in record.acknowledged}

    assert 0 == record.run("never", 1, numbers)

    again = dict(record.acknowledged[-len(numbers) :])
    assert {"same"} >= {status for trial_id, status in again.items() if trial_id in acknowledged}
    assert len(numbers) == len(again) == len(record.sent)
    assert NOTHING == record.losses(database)
    with database.writing(reports.LOCK) as connection:
        incremental = summaries.everything(connection, record.study_id)
        rebuild_all(connection, ServiceLimits().max_speedup)
        assert incremental == summaries.everything(connection, record.study_id)


@pytest.mark.timeout(300)
def test_acknowledged_results_survive_a_kill(
    url: str, database: Database, tmp_path: Path, record_property: RecordProperty
) -> None:
    """A kill before the commit and after it; the next service gets ready, and then everything is sent again."""
    record, readiness = new_record(url, database), Readiness()
    numbers = range(PER_RUN * len(FEW_POINTS))

    for place, point in enumerate(FEW_POINTS):
        count = 1 if point == "closing" else 3
        code = record.run(point, count, range(place * PER_RUN, (place + 1) * PER_RUN))
        assert -signal.SIGKILL == code
    readiness.serve(url, tmp_path)

    record_property("ready", str(readiness))
    assert record.acknowledged
    check_after(record, database, numbers)


def test_the_harness_catches_an_answer_before_the_commit(url: str, database: Database) -> None:
    """The control: with an answer before the commit, results that were acknowledged are lost, and it shows."""
    record = new_record(url, database)

    assert -signal.SIGKILL == record.run("before_commit", 2, range(PER_RUN), mode="early")

    losses = record.losses(database)
    assert losses["lost"]
    assert {**losses, "lost": set()} == NOTHING


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_acknowledged_results_survive_many_kills(
    template: Callable[[str], str], kind: str, tmp_path: Path, record_property: RecordProperty
) -> None:
    """Two hundred kills at all points, early and late in a run; after each of them a service gets ready."""
    url = template(kind)
    database = Database.open(url)
    record, readiness = new_record(url, database), Readiness()
    killed = 0

    for number in range(KILLS):
        point = POINTS[number % len(POINTS)]
        count = 1 if point == "closing" else 1 + number // len(POINTS) % 6
        code = record.run(point, count, range(number * PER_RUN, (number + 1) * PER_RUN))
        killed += code == -signal.SIGKILL
        assert NOTHING == record.losses(database)
        readiness.serve(url, tmp_path)

    record_property("ready", str(readiness))
    assert KILLS == killed
    check_after(record, database, range(KILLS * PER_RUN))
    database.close()
