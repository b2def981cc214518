# SPDX-License-Identifier: Apache-2.0
"""`ElasticRayExecutor`: workers and nodes are lost and come while a job trains."""

import os
import re
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ringtune.ray import ElasticJobError, ElasticRayExecutor
from tests.platforms.ray_cluster import rank_functions
from tests.platforms.ray_cluster.conftest import STORE_BYTES
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("cluster")

LIMIT_S = 150.0  # a worker imports torch on a busy machine


def await_world(folder: Path, job: Future[Any], size: int, after: int) -> int:
    """Wait until a world of a size trains, later than another one; return its number among the worlds."""

    def newest() -> int:
        found = [re.fullmatch(r"(\d+) of (\d+)", path.name) for path in folder.iterdir()]
        return max((int(match[1]) for match in found if match and int(match[2]) == size), default=0)

    wait_until(lambda: job.done() or newest() > after, LIMIT_S)
    assert not job.done(), job.result()
    return newest()


def test_lost_workers_are_replaced_and_nodes_that_come_are_used(cluster: Any, tmp_path: Path) -> None:
    """One worker is killed and replaced, a node comes and is lost: committed state is kept, on all ranks."""
    settings = ElasticRayExecutor.create_settings(min_num_proc=1, timeout_s=LIMIT_S, cooldown_range=(0.5, 1))
    executor = ElasticRayExecutor(settings, cpus_per_slot=3)
    executor.start()
    node = None
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(executor.run, partial(rank_functions.train_elastically, str(tmp_path)))
        try:
            first = await_world(tmp_path, job, 2, after=0)
            alone = await_world(tmp_path, job, 1, after=first)
            again = await_world(tmp_path, job, 2, after=alone)
            node = cluster.add_node(num_cpus=3, object_store_memory=STORE_BYTES)
            larger = await_world(tmp_path, job, 3, after=again)
            os.kill(node.all_processes["raylet"][0].process.pid, 9)
            await_world(tmp_path, job, 2, after=larger)
        finally:
            (tmp_path / "end").touch()
            if node is not None:
                cluster.remove_node(node, allow_graceful=False)
        results = job.result(LIMIT_S)

    assert [0, 1] == [result["rank"] for result in results]
    assert 2 == results[0]["sizes"][0] == results[0]["sizes"][-1]
    assert {1, 2, 3} == set(results[0]["sizes"])
    assert results[0]["step"] > 20
    assert [results[0][name] for name in ("step", "sizes", "weights")] == [
        results[1][name] for name in ("step", "sizes", "weights")
    ]


def test_an_exception_on_every_worker_ends_the_job() -> None:
    """The user's own is raised."""
    settings = ElasticRayExecutor.create_settings(min_num_proc=2, max_num_proc=2, timeout_s=LIMIT_S)

    def fail() -> None:  # within the test, so that workers import no module of the tests
        raise LookupError("mine, everywhere")

    with pytest.raises(LookupError, match="mine, everywhere"):
        ElasticRayExecutor(settings).run(fail)


def test_too_few_workers_for_too_long_are_an_error_with_both_numbers() -> None:
    """The cluster has room for one worker, and the job needs three."""
    settings = ElasticRayExecutor.create_settings(min_num_proc=3, elastic_timeout=3, timeout_s=LIMIT_S)

    def join() -> None:
        from ringtune.session.session import SESSION

        SESSION.init()

    with pytest.raises(ElasticJobError, match=r"there were not 3 workers within 3 s.*the cluster has 6 CPU"):
        ElasticRayExecutor(settings, cpus_per_slot=5).run(join)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"min_num_proc": 0}, "min_num_proc=0"),
        ({"min_np": 3, "max_np": 2}, "min_num_proc=3, max_num_proc=2"),
        ({"elastic_timeout": 0}, "elastic_timeout=0"),
        ({"cooldown_range": (5, 1)}, "cooldown_range="),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    """Each names the setting and its allowed values."""
    with pytest.raises(ValueError, match=words):
        ElasticRayExecutor(ElasticRayExecutor.create_settings(**settings))
