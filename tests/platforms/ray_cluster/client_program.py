# SPDX-License-Identifier: Apache-2.0
"""Program outside of the cluster, over Ray Client: an executor, and its failures. Argument: a `ray://` address.

Its functions travel with it: the cluster's workers need not have this file.
"""

import json
import sys
from typing import Any

import ray

from ringtune.errors import ConfigError
from ringtune.ray import ElasticRayExecutor, RayExecutor, WorkerLostError


def place() -> tuple[int, int, float]:
    """Join, and return rank, size and a sum over the ranks."""
    import torch

    import ringtune.torch as hvd

    hvd.init()
    return hvd.rank(), hvd.size(), hvd.allreduce(torch.ones(1), op=hvd.Sum).item()


def raise_on(rank: int) -> None:
    """Raise on one rank, while the other waits for it in a collective."""
    import torch

    import ringtune.torch as hvd

    hvd.init()
    if hvd.rank() == rank:
        raise LookupError(f"mine, on rank {rank}")
    hvd.allreduce(torch.ones(1))


def die_on(rank: int) -> None:
    """End the process of one rank."""
    import os

    import ringtune.torch as hvd

    hvd.init()
    if hvd.rank() == rank:
        os._exit(3)


def raised_by(executor: RayExecutor, function: Any) -> str:
    """Return the error of a function that fails on rank 1."""
    try:
        executor.run(function, [1])
    except (LookupError, WorkerLostError) as error:
        return f"{[base.__name__ for base in type(error).__mro__]}: {error}"
    return ""


def elastic_refusal() -> str:
    """Return the elastic executor's error for a program outside of the cluster."""
    try:
        ElasticRayExecutor(ElasticRayExecutor.create_settings(max_num_proc=1, elastic_timeout=60)).run(place)
    except ConfigError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    ray.init(sys.argv[1], log_to_driver=False)
    found: dict[str, Any] = {"is_client": ray.util.client.ray.is_connected()}
    with RayExecutor(RayExecutor.create_settings(timeout_s=200), num_workers=2) as job:
        job.start(extra_env_vars={"MINE": "x"})
        found["places"] = job.run(place)
        found["single"] = job.execute_single(lambda _: __import__("os").environ["MINE"])
        found["raised"] = raised_by(job, raise_on)
        found["again"] = job.run(place)
        found["lost"] = raised_by(job, die_on)
        job.shutdown()
        job.start()
        found["restarted"] = job.run(place)
    found["elastic"] = elastic_refusal()
    sys.stdout.write(json.dumps(found) + "\n")
