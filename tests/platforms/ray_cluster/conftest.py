# SPDX-License-Identifier: Apache-2.0
"""One small Ray cluster for all tests of this folder: six CPUs and two GPUs by name."""

import os
from collections.abc import Iterator

import pytest

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_TRAIN_ENABLE_STATE_TRACKING": "0"}
"""Environment of every Ray process: it sends no reports, and leaves no token in the user's folder."""
STORE_BYTES = 80 * 2**20  # Ray's least is 75 MB


@pytest.fixture(scope="session")
def cluster() -> Iterator[object]:
    """A `ray.cluster_utils.Cluster` with its first node, to which this process is connected."""
    os.environ.update(QUIET)
    import ray
    from ray.cluster_utils import Cluster

    first = {"num_cpus": 6, "num_gpus": 2, "include_dashboard": False, "object_store_memory": STORE_BYTES}
    started = Cluster(initialize_head=True, head_node_args=first)
    try:
        ray.init(address=started.address, log_to_driver=False)
        yield started
    finally:
        ray.shutdown()
        started.shutdown()
