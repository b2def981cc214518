# SPDX-License-Identifier: Apache-2.0
"""Ranks on two executors, each a Java process of its own: Spark's `local-cluster`, and sessions without a start."""

import io
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ringtune.spark
from ringtune.errors import ConfigError
from ringtune.run_function import RankFailedError
from ringtune.spark.slots import find_slots
from tests.platforms import spark_functions as functions
from tests.platforms.spark_sessions import session_of

CLUSTER = "local-cluster[2,1,1024]"
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module", name="session")
def active_session() -> Iterator[SparkSession]:
    """Return an active session of two executors with a task slot each."""
    with session_of(CLUSTER) as session:
        yield session


def test_dynamic_allocation_is_named_before_sparks_trace() -> None:
    """Spark refuses barrier mode with executors that come and go, whatever the number of ranks."""
    settings = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "0"}
    with (
        session_of("local-cluster[1,1,1024]", settings),
        pytest.raises(ConfigError, match="start the session with spark.dynamicAllocation.enabled=false"),
    ):
        ringtune.spark.run(functions.see, num_proc=1)


def test_ranks_on_executors_share_the_memory_of_their_host(session: SparkSession) -> None:
    """The job begins before the executors have registered, and waits for them."""
    seen = ringtune.spark.run(functions.see, num_proc=2)

    assert [(0, 2, 0, 2), (1, 2, 1, 2)] == [(one.rank, one.size, one.local_rank, one.local_size) for one in seen]
    assert {("shm", 3.0)} == {(one.carrier, one.total) for one in seen}
    assert 2 == len({one.parent for one in seen})
    assert (2, 2) == ((slots := find_slots(session)).there, slots.most)
    with pytest.raises(ConfigError, match="3 ranks need 3 task slots at the same time, .* application has 2"):
        ringtune.spark.run(functions.see, num_proc=3)


@pytest.mark.usefixtures("session")
def test_an_elastic_job_goes_on_without_a_lost_rank_and_takes_it_in_again(tmp_path: Path) -> None:
    """Spark starts the lost task anew, and it joins the others; all ranks end with the same weights, and say so."""
    output = io.StringIO()
    results = ringtune.spark.run_elastic(
        functions.train_elastically,
        (str(tmp_path), 40, 12),
        num_proc=2,
        min_np=1,
        max_np=2,
        stdout=output,
        prefix_output_with_timestamp=True,
    )

    lines = [line.partition(" ") for line in output.getvalue().splitlines()]
    assert {"[0] trained 40 steps", "[1] trained 40 steps"} == {text for _, _, text in lines}
    assert all(datetime.fromisoformat(time).tzinfo for time, _, _ in lines)
    assert (tmp_path / "lost").exists()
    assert [(0, 2, 40), (1, 2, 40)] == [(rank, size, steps) for rank, size, steps, _ in results]
    assert results[0][3] == results[1][3]


@pytest.mark.usefixtures("session")
def test_an_elastic_job_without_a_reset_left_ends(tmp_path: Path) -> None:
    """The ranks that are left may not meet again; neither they nor the lost one's successor hold up the job."""
    with pytest.raises(RankFailedError, match="the ranks have changed once more than reset_limit=0 allows"):
        ringtune.spark.run_elastic(functions.train_elastically, (str(tmp_path), 40, 12), {}, 2, 1, 2, 600, 600, 0)

    assert (tmp_path / "lost").exists()


@pytest.mark.usefixtures("session")
def test_an_elastic_job_whose_function_always_raises_ends() -> None:
    """Spark starts the task anew some times; the error is that of the rank that raised."""
    with pytest.raises(RankFailedError, match="raised ValueError: again") as caught:
        ringtune.spark.run_elastic(functions.raise_on, (1, "again"), num_proc=2)

    assert "PeerLostError" not in str(caught.value)
    for wrong, words in (
        ({"min_num_proc": 3}, "1 <= min_num_proc <= num_proc <= max_num_proc"),
        ({"min_num_proc": 1, "min_np": 2}, "min_num_proc=1 and min_np=2 are two spellings"),
        ({"reset_limit": -1}, "reset_limit=-1"),
        ({"elastic_timeout": 0}, "elastic_timeout=0 is not possible"),
        ({"nics": ["eth0"]}, "nics=.* is not possible: the ranks take the network"),
    ):
        with pytest.raises(ConfigError, match=words):
            ringtune.spark.run_elastic(functions.see, num_proc=2, **wrong)


@pytest.mark.usefixtures("session")
def test_a_killed_executor_ends_the_job() -> None:
    """The next job waits until Spark has started another one."""
    with pytest.raises(RankFailedError, match="ended without a result") as caught:
        ringtune.spark.run(functions.kill_executor_of, (1,), num_proc=2)

    assert "PeerLostError" not in str(caught.value)
    assert 3.0 == ringtune.spark.run(functions.see, num_proc=2)[0].total
