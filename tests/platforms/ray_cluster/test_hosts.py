# SPDX-License-Identifier: Apache-2.0
"""`RayExecutor` on two machines, which are namespaces of this one: ranks meet over the network between the nodes."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.house.source_tree import REPOSITORY
from tests.integration.hosts import Host, hosts, needs_hosts, run_on
from tests.platforms.ray_cluster.conftest import QUIET, STORE_BYTES

PROGRAM = Path(__file__).with_name("two_hosts.py")
PORT = 6379
STARTED = b"--block"
ALL = ("--num-cpus=1", f"--object-store-memory={STORE_BYTES}", "--disable-usage-stats", "--block")


@contextmanager
def node(host: Host, *options: str) -> Iterator[None]:
    """Run a Ray node on a host; its processes end with it."""
    command = host.command(sys.executable, "-m", "ray.scripts.scripts", "start", *options, *ALL)
    command = [*command, f"--node-ip-address={host.address}"]
    environment = {**os.environ, **QUIET, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    assert process.stdout is not None
    try:
        output = b""
        for line in process.stdout:
            output += line
            if STARTED in line:
                break
        assert STARTED in output, output.decode()
        yield
    finally:
        process.kill()  # `nsenter` alone; Ray's processes end with the host
        process.wait()
        process.stdout.close()


@needs_hosts
def test_ranks_on_two_nodes_meet_at_a_nodes_address() -> None:
    """One rank on each node; rank 0 listens on the address that Ray knows, and each is the only rank of its host."""
    with (
        tempfile.TemporaryDirectory() as folder,  # a short name: Ray's sockets are in it
        hosts(2) as (first, second),
        node(first, "--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={folder}"),
        node(second, f"--address={first.address}:{PORT}"),
    ):
        program = ["env", f"PYTHONPATH={REPOSITORY}", *(f"{name}={value}" for name, value in QUIET.items())]
        output = run_on(first, [*program, sys.executable, str(PROGRAM), f"{first.address}:{PORT}"], limit_s=240)

    found = re.findall(r"(\d) 2 2\.0 \((\d), 2, 0, 1, \d\) tcp://(10\.77\.0\.[12]):\d+", output)
    assert ["0", "1"] == [rank for rank, *_ in found], output
    assert 1 == len({address for *_, address in found})
