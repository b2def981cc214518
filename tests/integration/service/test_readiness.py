# SPDX-License-Identifier: Apache-2.0
"""`/readyz` and acknowledgements beside a database whose file or disk has changed since the start."""

import os
import resource
import signal
import sqlite3
import stat
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.contract.service.requests import STUDY_BODY, result_body
from tests.integration.service.server_process import ServerProcess, serving
from tests.waiting import wait_until

PAGE_BYTES = 4096
KEPT_BYTES = 16 * PAGE_BYTES


@dataclass
class Client:
    """A job that reports results, and remembers which were acknowledged."""

    server: ServerProcess
    study_id: str
    acknowledged: list[str] = field(default_factory=list)

    def report(self) -> httpx.Response:
        """Report a new result."""
        trial_id = str(uuid.uuid4())
        reply = self.server.client.put(
            f"/v1/studies/{self.study_id}/trials/{trial_id}/result", json=result_body(str(uuid.uuid4()))
        )
        if reply.status_code == 201:
            self.acknowledged.append(trial_id)
        return reply

    def ready(self) -> httpx.Response:
        """Ask whether the service is ready."""
        return self.server.client.get("/readyz")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The database's file."""
    return tmp_path / "data" / "db.sqlite3"


@pytest.fixture
def client(tmp_path: Path, file: Path) -> Iterator[Client]:
    """A client of a service that has some results."""
    file.parent.mkdir()
    with serving(tmp_path, "--database-url", f"sqlite:///{file}") as server:
        made = Client(server, server.client.post("/v1/studies", json=STUDY_BODY).json()["id"])
        for _ in range(5):
            assert 201 == made.report().status_code
        assert 200 == made.ready().status_code
        yield made


def stored(file: Path) -> set[str]:
    """Return the trials that a program finds that opens the file now."""
    with sqlite3.connect(file) as connection:
        return {row[0] for row in connection.execute("SELECT trial_id FROM reports")}


def assert_away(reply: httpx.Response, words: str) -> None:
    """Assert that a reply is a 503 of the store with these words."""
    assert (503, "store_unavailable") == (reply.status_code, reply.json()["code"]), reply.text
    assert words in reply.json()["detail"]
    assert "/" not in reply.json()["detail"].replace("file:", "")  # no path: anybody may ask


def test_a_new_file_is_for_its_owner_alone(client: Client, file: Path) -> None:
    """The database that a URL names, its log and its index: 0600, whatever the umask is."""
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}

    assert dict.fromkeys(("db.sqlite3", "db.sqlite3-wal", "db.sqlite3-shm"), 0o600) == modes


@pytest.mark.parametrize(
    ("name", "words"),
    [("db.sqlite3", "file was moved or removed"), ("db.sqlite3-wal", "write-ahead log (-wal) was moved or removed")],
)
def test_a_file_that_was_moved_takes_no_result_until_it_is_back(
    client: Client, file: Path, name: str, words: str
) -> None:
    """Every result is refused meanwhile, `/readyz` says why, and both heal at once."""
    place = file.with_name(name)
    place.rename(file.with_name("moved"))

    assert_away(client.report(), words)
    assert_away(client.ready(), words)
    file.with_name("moved").rename(place)

    assert 200 == client.ready().status_code
    assert 201 == client.report().status_code
    assert 0 == client.server.end()
    assert set(client.acknowledged) == stored(file)


def test_a_file_that_was_removed_takes_no_result(client: Client, file: Path) -> None:
    """No empty one is made in its place, and none that somebody puts there is used before a restart."""
    backup = sqlite3.connect(file.with_name("backup"))
    with sqlite3.connect(file) as source:
        source.backup(backup)
    backup.close()
    kept = len(client.acknowledged)
    file.unlink()

    assert_away(client.report(), "file was moved or removed")
    assert_away(client.ready(), "file was moved or removed")
    assert not file.exists()
    file.with_name("backup").rename(file)
    assert_away(client.report(), "another file has taken the place")
    assert_away(client.ready(), "another file has taken the place")

    client.server.end(signal.SIGKILL)
    file.with_name("db.sqlite3-wal").unlink()  # as one restores a file: without the parts of another
    assert set(client.acknowledged[:kept]) == stored(file)


def test_a_full_disk_is_not_ready_until_there_is_room(client: Client, file: Path) -> None:
    """A full disk makes `/readyz` refuse as writes are refused, even where a single page would still find room."""
    size = file.with_name("db.sqlite3-wal").stat().st_size
    assert 200 == client.ready().status_code
    own = resource.prlimit(client.server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(client.server.process.pid, resource.RLIMIT_FSIZE, (size + PAGE_BYTES, own[1]))

    replies = [client.report() for _ in range(20)]

    assert 503 == replies[-1].status_code
    assert "store_unavailable" == replies[-1].json()["code"]
    assert_away(client.ready(), "no room for 1 MiB")
    resource.prlimit(client.server.process.pid, resource.RLIMIT_FSIZE, own)
    assert 200 == client.ready().status_code
    assert 201 == client.report().status_code
    client.server.end(signal.SIGKILL)
    assert set(client.acknowledged) <= stored(file)


def test_probes_do_not_let_the_files_grow(client: Client, file: Path) -> None:
    """An idle service, asked again and again: the log begins anew, as after results."""
    for _ in range(50):
        assert 200 == client.ready().status_code

    assert file.with_name("db.sqlite3-wal").stat().st_size < 1200 * PAGE_BYTES
    assert {"db.sqlite3", "db.sqlite3-wal", "db.sqlite3-shm"} == {path.name for path in file.parent.iterdir()}


def test_a_damaged_file_is_said_so_and_healed(client: Client, file: Path, tmp_path: Path) -> None:
    """Pages of zeros: 503 and not a bug's 500, from `/readyz` too; the file as it was is used without a restart."""
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = file.read_bytes()
    with file.open("r+b") as damaged:
        damaged.seek(KEPT_BYTES)
        damaged.write(bytes(len(whole) - KEPT_BYTES))

    wait_until(lambda: client.ready().status_code == 503)
    assert_away(client.ready(), "damaged")
    paths = ["/v1/studies", f"/v1/studies/{client.study_id}", "/v1/export"]
    replies = [client.server.client.get(path) for path in paths]
    assert not [reply.text for reply in replies if reply.status_code not in {200, 404, 503}]
    assert client.report().status_code in {201, 503}
    with file.open("r+b") as mended:
        mended.write(whole)
        mended.flush()
        os.fsync(mended.fileno())

    wait_until(lambda: client.ready().status_code == 200)
    log = (tmp_path / "stderr.txt").read_text(encoding="utf-8")
    assert "Traceback" not in log
    assert "not_ready" in log
    assert "ready_again" in log
