# SPDX-License-Identifier: Apache-2.0
"""`RayExecutor` on a real Ray cluster: Horovod's calls and meanings, and its errors."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from ringtune.errors import ConfigError
from ringtune.ray import PlacementTimeoutError, RayExecutor, WorkerLostError
from ringtune.ray.executor import by_node
from ringtune.ray.outcomes import TeamMember
from ringtune.ray.worker import WorkerFacts
from tests.platforms.ray_cluster import rank_functions
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("cluster")

FREE_CPUS = 4.0  # the cluster's six without those of the fixture `two`


@pytest.fixture(scope="module")
def two(cluster: object) -> Iterator[RayExecutor]:
    """A started executor with two ranks; tests leave it usable."""
    with RayExecutor(RayExecutor.create_settings(timeout_s=200), num_workers=2) as executor:
        executor.start()
        yield executor


def test_a_function_runs_on_every_rank_with_its_arguments(two: RayExecutor) -> None:
    """Results come by rank; actors live on, and their world goes on."""
    places = two.run(rank_functions.place)

    assert [0, 1] == [place["rank"] for place in places]
    assert [(2, 2.0, False)] * 2 == [(place["size"], place["sum"], place["has_key"]) for place in places]
    assert [place["told"] for place in places] == [place["asked"] for place in places]
    assert [7, 10] == two.run(rank_functions.times, [3], {"offset": 7})
    assert [0, 2] == ray.get(two.run_remote(rank_functions.times, args=[2]))
    assert places == two.run(rank_functions.place)


def test_each_meeting_has_a_key_and_an_address_of_its_own(two: RayExecutor) -> None:
    """A world that was left is followed by a new one; also where one rank alone has left it."""
    first = two.run(rank_functions.place)
    two.run(rank_functions.leave)
    second = two.run(rank_functions.place)
    two.execute_single(lambda _: rank_functions.leave())
    third = two.run(rank_functions.place)

    meetings = [places[0]["meeting"] for places in (first, second, third)]
    assert [places[1]["meeting"] for places in (first, second, third)] == meetings
    assert 3 == len({address for address, _ in meetings}) == len({digest for _, digest in meetings})
    assert [place["pid"] for place in first] == [place["pid"] for place in third]


def test_meetings_leave_no_descriptor_behind(two: RayExecutor) -> None:
    """An executor may be used for days."""
    counts = []
    for _ in range(3):
        two.run(rank_functions.place)
        two.run(rank_functions.leave)
        counts.append(two.run(rank_functions.open_descriptors))

    assert counts[1] == counts[2], counts


def test_an_object_lives_on_every_rank() -> None:
    """The object trains over several calls, and its constructor may join the world."""
    with RayExecutor(num_workers=2) as executor:
        executor.start(rank_functions.Training, executable_args=[0.1], executable_kwargs={"momentum": 0.9})
        before = executor.execute(lambda training: training.weights())
        for _ in range(3):
            executor.execute(lambda training: training.step())
        after = executor.execute(lambda training: training.weights())

        assert after[0] == executor.execute_single(lambda training: training.weights())
    assert before[0] == before[1] != after[0] == after[1]


def test_the_users_own_exception_is_shown_and_the_executor_goes_on(two: RayExecutor, tmp_path: Path) -> None:
    """A rank that waits for the one that failed gets an error as well, even before it: that one is not raised."""
    with pytest.raises(LookupError, match="mine, on rank 1"):
        two.run(rank_functions.raise_on, [1])
    with pytest.raises(LookupError, match="mine, late"):
        two.run(rank_functions.leave_and_raise_late, [str(tmp_path / "noticed")])

    assert [2.0, 2.0] == [place["sum"] for place in two.run(rank_functions.place)]


def test_a_lost_worker_is_named_and_others_can_be_started() -> None:
    """One ends by itself, one is killed: the error says which; after `shutdown()`, `start()` makes new ones."""
    with RayExecutor(num_workers=2) as executor:
        executor.start()
        pids = [place["pid"] for place in executor.run(rank_functions.place)]
        with pytest.raises(WorkerLostError, match=f"rank 1, process {pids[1]} on node .*start\\(\\) makes") as caught:
            executor.run(rank_functions.die_on, [1])
        assert 1 == caught.value.rank
        executor.shutdown()
        executor.start()

        assert [2.0, 2.0] == [place["sum"] for place in executor.run(rank_functions.place)]
        references = executor.run_remote(rank_functions.reduce_for_ever)
        ray.kill(executor.workers[0])
        with pytest.raises(ray.exceptions.RayError):
            ray.get(references)
        with pytest.raises(WorkerLostError, match="rank 0, process"):
            executor.run(rank_functions.place)


@pytest.mark.usefixtures("two")
def test_an_executor_is_shut_down_while_its_ranks_wait_for_each_other() -> None:
    """The shutdown does not wait, and the resources are free again."""
    executor = RayExecutor(num_workers=2)
    executor.start()
    executor.run_remote(rank_functions.reduce_for_ever)
    executor.shutdown()
    executor.shutdown()

    wait_until(lambda: ray.available_resources().get("CPU") == FREE_CPUS)
    with pytest.raises(ConfigError, match="call start"):
        executor.run(rank_functions.place)


@pytest.mark.usefixtures("two")
def test_a_cluster_without_room_is_an_error_with_both_numbers() -> None:
    """The error gives the CPUs requested, existing and free, and the request is given up."""
    settings = RayExecutor.create_settings(timeout_s=60, placement_group_timeout_s=2)
    wait_until(lambda: ray.available_resources().get("CPU") == FREE_CPUS)

    with pytest.raises(
        PlacementTimeoutError, match=r"5 workers with 1 CPU each within 2 s; asked was for 5 CPU"
    ) as few:
        RayExecutor(settings, num_workers=5).start()
    with pytest.raises(TimeoutError, match=r"1 on each of 2 nodes.* the cluster has 6 CPU and 2 GPU on 1 nodes"):
        RayExecutor(settings, num_hosts=2).start()
    assert "4 CPU and 2 GPU of it free" in str(few.value)


@pytest.mark.usefixtures("two")
def test_a_constructor_that_raises_ends_the_start() -> None:
    """Its exception is shown, and no process is left."""
    executor = RayExecutor(num_workers=2)

    with pytest.raises(TypeError, match="momentum"):
        executor.start(rank_functions.Training, [0.1])
    wait_until(lambda: ray.available_resources().get("CPU") == FREE_CPUS)


def test_settings_reach_the_ranks_and_places_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's own settings, then the call's; never a place or a key that the program has itself."""
    monkeypatch.setenv("AUTOTUNE_MODEL", "resnet")
    monkeypatch.setenv("RINGTUNE_CYCLE_MS", "3")
    monkeypatch.setenv("HOROVOD_RANK", "17")
    monkeypatch.setenv("RINGTUNE_JOB_KEY", "cd" * 32)
    names = ("AUTOTUNE_MODEL", "RINGTUNE_CYCLE_MS", "HOROVOD_RANK", "RINGTUNE_JOB_KEY", "MINE")
    with RayExecutor(num_workers=1) as executor:
        executor.start(extra_env_vars={"RINGTUNE_CYCLE_MS": 5, "MINE": True})
        (found,) = executor.run(rank_functions.variables, names)

    assert "resnet" == found["AUTOTUNE_MODEL"]
    assert ("5", "True", "0") == (found["RINGTUNE_CYCLE_MS"], found["MINE"], found["HOROVOD_RANK"])
    assert found["RINGTUNE_JOB_KEY"] not in {None, "cd" * 32}


def test_ranks_of_a_node_see_its_gpus_in_the_order_of_local_ranks() -> None:
    """`torch.cuda.set_device(hvd.local_rank())` finds each rank's own."""
    with RayExecutor(num_workers=2, use_gpu=True) as executor:
        executor.start()
        own = [facts.gpus for facts in ray.get([worker.facts.remote() for worker in executor.workers])]
        seen = executor.run(rank_functions.variables, ["CUDA_VISIBLE_DEVICES"])

    assert {("0",), ("1",)} == set(own)
    assert [{"CUDA_VISIBLE_DEVICES": f"{own[0][0]},{own[1][0]}"}] * 2 == seen


def _train_in_trial(settings: Any, workers: int) -> tuple[set[str], str]:
    """An executor inside of a placement group, as a trial of Ray Tune makes one; returns groups of ranks and trial."""
    with RayExecutor(settings, num_workers=workers) as executor:
        executor.start()
        groups = executor.run(lambda: ray.get_runtime_context().get_placement_group_id())
    return set(groups), ray.get_runtime_context().get_placement_group_id()


def test_an_executor_in_a_placement_group_uses_it() -> None:
    """One bundle for the trial, one for each rank; a group that is too small is an error with its bundles."""
    group = ray.util.placement_group([{"CPU": 1}] * 3)
    try:
        assert group.wait(60)
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
        trial = ray.remote(_train_in_trial).options(num_cpus=1, scheduling_strategy=strategy)
        groups, own = ray.get(trial.remote(RayExecutor.create_settings(timeout_s=200), 2))
        with pytest.raises(
            TimeoutError, match=r"start within 3 s in the current placement group with the bundles 1 CPU"
        ):
            ray.get(trial.remote(RayExecutor.create_settings(timeout_s=3), 4))
    finally:
        ray.util.remove_placement_group(group)

    assert groups == {own}


def test_ranks_are_ordered_by_node_and_a_lost_node_is_named(cluster: Any) -> None:
    """Two raylets; the second is killed while the ranks reduce."""
    node = cluster.add_node(num_cpus=2, object_store_memory=80 * 2**20)
    try:
        cluster.wait_for_nodes()
        with RayExecutor(num_hosts=2, num_workers_per_host=2) as executor:
            executor.start()
            places = executor.run(rank_functions.place)
            nodes = [place["node"] for place in places]
            assert nodes[0] == nodes[1] != nodes[2] == nodes[3]
            assert [4.0] * 4 == [place["sum"] for place in places]
            lost = nodes.index(node.node_id)
            os.kill(node.all_processes["raylet"][0].process.pid, 9)
            start_s = time.monotonic()
            with pytest.raises(WorkerLostError, match=f"rank {lost}, .*Ray's id {node.node_id}"):
                executor.run(rank_functions.reduce_for_ever)
            assert time.monotonic() - start_s < 60
    finally:
        cluster.remove_node(node, allow_graceful=False)
        wait_until(lambda: 1 == len([n for n in ray.nodes() if n["Alive"]]))


def test_workers_of_a_node_are_neighbours_and_so_are_nodes_that_share_memory() -> None:
    """Ray may start actors in any order."""
    hosts_and_nodes = [("x", "1"), ("y", "2"), ("x", "3"), ("y", "2"), ("x", "1")]
    members = [
        TeamMember(number, WorkerFacts(node, host, "name", "address", number, ()))
        for number, (host, node) in enumerate(hosts_and_nodes)
    ]

    assert [0, 4, 2, 1, 3] == [member.actor for member in by_node(members)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "give the number of ranks"),
        ({"num_workers": 2, "num_hosts": 1}, "give the number of ranks"),
        ({"num_workers": 0}, "num_workers=0"),
        ({"num_hosts": 1, "num_workers_per_host": 0}, "num_workers_per_host=0"),
        ({"num_workers": 1, "gpus_per_worker": 1}, "needs use_gpu=True"),
        ({"num_workers": 1, "use_gpu": True, "gpus_per_worker": 0}, "gpus_per_worker=0"),
        ({"num_workers": 1, "cpus_per_worker": 0}, "cpus_per_worker=0"),
        ({"num_workers": 1, "settings": RayExecutor.create_settings(timeout_s=0)}, "settings.timeout_s=0"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any], words: str) -> None:
    """Each names the argument and its allowed values."""
    with pytest.raises(ValueError, match=words):
        RayExecutor(**arguments)
