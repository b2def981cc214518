# SPDX-License-Identifier: Apache-2.0
"""Small jobs and configs that the simulator's tests share."""

from ringtune.tuner import Config, Value, default_config
from ringtune.tuner.simulator import Cluster, Gradient, SimulatedJob, parse_link

MIB = 1024 * 1024


def job_of(
    *sizes: int, backward_ms: float = 10.0, compute_threads: float = 0.0, home_bytes: int | None = None
) -> SimulatedJob:
    """Return a job whose gradients have these sizes in bytes and take equal shares of the backward pass."""
    gradients = tuple(Gradient(f"g{number}", (size // 4,), 1.0) for number, size in enumerate(sizes))
    return SimulatedJob("test", gradients, 5.0, backward_ms, 1.0, compute_threads, home_bytes)


def config_of(**values: Value) -> Config:
    """Return the engine's default with other values for these parameters."""
    return default_config().replace(values)


def hosts_of(hosts: int, ranks_per_host: int, link: str = "25gbit", cores_per_host: int = 64) -> Cluster:
    """Return a cluster whose hosts have a core to spare."""
    return Cluster(hosts, ranks_per_host, cores_per_host, parse_link(link))
