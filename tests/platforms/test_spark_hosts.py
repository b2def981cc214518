# SPDX-License-Identifier: Apache-2.0
"""Ranks on two hosts of a standalone Spark cluster: a master and two workers with networks of their own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.house.source_tree import REPOSITORY
from tests.integration.hosts import Host, hosts, needs_hosts
from tests.waiting import wait_until

HOME = Path(pyspark.__file__).parent
PORT = 7077
LIMIT_S = 400.0


def environment(host: Host) -> dict[str, str]:
    """Return the environment of Spark's processes on a host."""
    ours = {"SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY)}
    return {**os.environ, **ours, "SPARK_LOCAL_IP": host.address}


@contextmanager
def daemon(host: Host, folder: Path, name: str, *arguments: str) -> Iterator[Path]:
    """Run a master or a worker on a host, and return its log; its processes end with the host.

    Args:
        host: The host.
        folder: Folder of logs.
        name: `master` or `worker`.
        arguments: Arguments of its class.
    """
    log = folder / f"{name}-{host.name}.log"
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}.{name.title()}"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            host.command(*command, "--host", host.address, "--webui-port", "0", *arguments),
            env=environment(host),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
    finally:
        process.kill()
        process.wait()


@needs_hosts
@pytest.mark.long
@pytest.mark.timeout(2 * LIMIT_S)
def test_ranks_on_two_hosts_meet_and_outlive_one_of_them(tmp_path: Path) -> None:
    """Between hosts ranks use TCP; the lost host's rank comes back on the other, and both end with the same weights."""
    with ExitStack() as stack:
        first, second = stack.enter_context(hosts(2))
        master = f"spark://{first.address}:{PORT}"
        log = stack.enter_context(daemon(first, tmp_path, "master", "--port", str(PORT)))
        wait_until(lambda: "I have been elected leader" in log.read_text("utf-8", "replace"), LIMIT_S)
        for host, cores in ((first, 2), (second, 1)):
            options = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(tmp_path / host.name)]
            stack.enter_context(daemon(host, tmp_path, "worker", *options, master))
        wait_until(lambda: log.read_text("utf-8", "replace").count("Registering worker") == 2, LIMIT_S)

        driver = stack.enter_context(
            subprocess.Popen(
                first.command(
                    *(sys.executable, "-m", "tests.platforms.spark_two_hosts", master, first.address, str(tmp_path))
                ),
                env=environment(first),
                cwd=REPOSITORY,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(driver.kill)
        wait_until(lambda: (tmp_path / "ready").exists() or driver.poll() is not None, LIMIT_S)
        os.kill(second.init_pid, signal.SIGKILL)
        (tmp_path / "lost").touch()
        output, errors = driver.communicate(timeout=LIMIT_S)

    assert 0 == driver.returncode, errors
    found = json.loads(output.splitlines()[-1])
    seen = [(one["rank"], one["size"], one["local_size"], one["carrier"], one["total"]) for one in found["seen"]]
    assert [(0, 2, 1, "tcp", 3.0), (1, 2, 1, "tcp", 3.0)] == seen
    assert [[0, 2, 2], [1, 2, 2]] == [result[:3] for result in found["outlived"]]
    assert found["outlived"][0][3] == found["outlived"][1][3]
