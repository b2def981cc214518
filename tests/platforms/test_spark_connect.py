# SPDX-License-Identifier: Apache-2.0
"""Jobs by a client of Spark Connect, as shared clusters have it: no Java, no `SparkContext`, no RDDs in the driver."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.house.source_tree import REPOSITORY
from tests.integration.ports import free_port
from tests.platforms.spark_sessions import LOOPBACK, SETTINGS

SLOTS = 4
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_S, LIMIT_S = 200.0, 300.0


@pytest.fixture(name="server")
def running_server(tmp_path: Path) -> Iterator[str]:
    """Return the address of a server with four task slots, a process of its own."""
    home = Path(pyspark.__file__).parent
    port = free_port()
    settings = {**SETTINGS, "spark.connect.grpc.binding.port": str(port)}
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [
        str(home / "bin" / "spark-submit"),
        "--master",
        f"local[{SLOTS}]",
        "--class",
        SERVER,
        *options,
        "spark-internal",
    ]
    environ = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(REPOSITORY),
        "SPARK_LOCAL_IP": LOOPBACK,
    }
    log = tmp_path / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environ, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        end_s = time.monotonic() + START_S
        while not _is_listening(port):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < end_s, log.read_text(encoding="utf-8")
        yield f"sc://{LOOPBACK}:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _is_listening(port: int) -> bool:
    with socket.socket() as caller:
        caller.settimeout(1.0)
        return caller.connect_ex((LOOPBACK, port)) == 0


@pytest.mark.timeout(START_S + LIMIT_S + 30)
def test_jobs_of_a_connect_client_run_on_ranks(server: str) -> None:
    """Results, the error of the rank that raised, and refusals are those of a classic session."""
    command = [sys.executable, "-m", "tests.platforms.connect_client", server]
    environ = {name: value for name, value in os.environ.items() if name not in {"SPARK_REMOTE", "SPARK_HOME"}}

    finished = subprocess.run(
        command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )

    assert 0 == finished.returncode, finished.stderr
    found = json.loads(finished.stdout.splitlines()[-1])
    assert found["kind"].startswith("pyspark.sql.connect")
    assert [6.0] * 3 == found["totals"]
    assert SLOTS == found["default"]
    assert found["raised"].startswith(
        "RankFailedError: rank 1 of 2 raised ValueError: far away\non two lines\n\nTraceback"
    )
    assert "PeerLostError" not in found["raised"]
    assert (
        f"ConfigError: 9 ranks need 9 task slots at the same time, and the Spark application has {SLOTS}"
        in (found["too_many"])
    )
    assert "ConfigError: 0 of 2 ranks had started after 0.001 s" in found["late"]
    assert "cannot be collected over Spark Connect" in found["output"]
    assert "first" == found["runner"]
