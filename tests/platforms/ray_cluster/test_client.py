# SPDX-License-Identifier: Apache-2.0
"""Programs outside of the cluster, over Ray Client: `ray.init("ray://HOST:PORT")`, as from a notebook on a laptop."""

import json
import sys
import tempfile
from pathlib import Path

import pytest

from tests.house.source_tree import REPOSITORY
from tests.integration.hosts import hosts, needs_hosts, run_on
from tests.platforms.ray_cluster.conftest import QUIET, STORE_BYTES

PROGRAM = Path(__file__).with_name("client_program.py")
PORT = 10001
LIMIT_S = 400.0


@needs_hosts
@pytest.mark.long
@pytest.mark.timeout(LIMIT_S + 120)
def test_an_executor_works_from_outside_of_the_cluster() -> None:
    """Results, errors and lost workers come as to a program on a node; an elastic job is refused with the reason."""
    environment = ["env", f"PYTHONPATH={REPOSITORY}", *(f"{name}={value}" for name, value in QUIET.items())]
    with (
        tempfile.TemporaryDirectory() as folder,  # a short name: Ray's sockets are in it
        hosts(2) as (head, outside),
    ):
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--num-cpus=4"]
        store = [f"--object-store-memory={STORE_BYTES}", f"--temp-dir={folder}", "--include-dashboard=false"]
        ports = [f"--node-ip-address={head.address}", f"--ray-client-server-port={PORT}"]
        run_on(
            head, [*environment, *start, *store, *ports], limit_s=LIMIT_S
        )  # without --block, which Ray Client fails under
        output = run_on(
            outside, [*environment, sys.executable, str(PROGRAM), f"ray://{head.address}:{PORT}"], limit_s=LIMIT_S
        )

    found = json.loads(output.splitlines()[-1])
    whole = [[0, 2, 2.0], [1, 2, 2.0]]
    assert found["is_client"]
    assert [whole] * 3 == [found["places"], found["again"], found["restarted"]]
    assert "x" == found["single"]
    assert "'LookupError'" in found["raised"]
    assert "mine, on rank 1" in found["raised"]
    assert "1 of 2 workers ended during the call: rank 1, " in found["lost"]
    assert "must run on a node of the cluster" in found["elastic"]
