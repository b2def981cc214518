# SPDX-License-Identifier: Apache-2.0
"""Control groups that run out of memory: the kernel kills a rank, or the service, and no other process is lost."""

import signal
import sqlite3
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.contract.service.requests import STUDY_BODY, result_body
from tests.integration.jobs import launched, launched_by, run_job
from tests.integration.memory_groups import MemoryGroup, be_the_first_victim, memory_group
from tests.integration.service.server_process import ServerProcess, serving, serving_launched

RANK_LIMIT_BYTES = 64 << 20
SERVICE_LIMIT_BYTES = 640 << 20
CLIENTS = 4
BEFORE = 40
HOG = "pieces = []\nwhile True: pieces.append(b'x' * (4 << 20))"


@pytest.mark.parametrize("count", [2, 4])
def test_a_rank_that_is_killed_for_want_of_memory_is_named(tmp_path: Path, count: int) -> None:
    """The others get PeerLostError with its number, the launcher ends with its code, and no process is left behind."""
    with memory_group(RANK_LIMIT_BYTES) as group:
        job = launched_by("patient_launcher", launched(count, "runs_out_of_memory", str(group.folder), str(tmp_path)))

        finished = run_job(job, {"RINGTUNE_TIMEOUT_S": "60"})

        assert 1 == group.kills()
    assert 128 + signal.SIGKILL == finished.code, finished.text
    assert "rank 1" in finished.stderr, finished.text
    assert "was killed by SIGKILL" in finished.stderr
    assert count - 1 == finished.stdout.count("got PeerLostError"), finished.text


def kill_by_memory(folder: Path, group: MemoryGroup, acknowledged: set[str]) -> None:
    """Start a service in the group, let clients report, and have another process take the group's memory."""
    with serving_launched(folder, prefix=group.command()) as server:
        be_the_first_victim(server.process.pid)
        study_id = server.client.post("/v1/studies", json=STUDY_BODY).json()["id"]
        kills = group.kills()

        def report(_number: int) -> None:
            acknowledged.update(reported(server, study_id))

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(report, range(BEFORE)))
            hog = subprocess.Popen(group.command(sys.executable, "-c", HOG))
            rest = [pool.submit(report, number) for number in range(100 * BEFORE)]
            assert -signal.SIGKILL == server.process.wait(60)
            hog.kill()
            hog.wait()
            for one in rest:
                one.cancel()
        assert kills < group.kills()


def reported(server: ServerProcess, study_id: str) -> set[str]:
    """Report a result; returns its trial if it was acknowledged."""
    trial_id = str(uuid.uuid4())
    try:
        reply = server.client.put(
            f"/v1/studies/{study_id}/trials/{trial_id}/result", json=result_body(str(uuid.uuid4()))
        )
    except httpx.HTTPError:
        return set()
    return {trial_id} if reply.status_code == 201 else set()


def test_a_service_that_is_killed_for_want_of_memory_loses_nothing(tmp_path: Path) -> None:
    """Acknowledged results are there after the next start."""
    acknowledged: set[str] = set()
    with memory_group(SERVICE_LIMIT_BYTES) as group:
        kill_by_memory(tmp_path, group, acknowledged)

    with serving(tmp_path) as server:
        assert 200 == server.client.get("/readyz").status_code
    with sqlite3.connect(tmp_path / "ringtune" / "service.sqlite3") as connection:
        stored = [row[0] for row in connection.execute("SELECT trial_id FROM reports")]
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
    assert BEFORE <= len(acknowledged)
    assert acknowledged <= set(stored)
    assert len(stored) == len(set(stored))
