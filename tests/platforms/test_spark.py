# SPDX-License-Identifier: Apache-2.0
"""Ranks as tasks of a Spark application on this machine, `local[4]`: one session for the module."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import ringtune.spark
from ringtune.errors import ConfigError
from ringtune.run_function import RankFailedError
from tests.integration.quick_tuning import QUICK
from tests.platforms import spark_functions as functions
from tests.platforms.spark_sessions import session_of

SLOTS = 4
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module", name="session")
def active_session() -> Iterator[SparkSession]:
    """Return an active session of four task slots."""
    with session_of(f"local[{SLOTS}]") as session:
        yield session


@pytest.mark.usefixtures("session")
def test_results_come_in_the_order_of_the_ranks() -> None:
    """Ranks of one host share its memory; each sees its place."""
    seen = ringtune.spark.run(functions.see, (2.0,), num_proc=3)

    assert [0, 1, 2] == [one.rank for one in seen]
    assert [12.0] * 3 == [one.total for one in seen]
    assert {(3, 3, "shm")} == {(one.size, one.local_size, one.carrier) for one in seen}
    assert [0, 1, 2] == [one.local_rank for one in seen]


@pytest.mark.usefixtures("session")
def test_workers_that_live_on_meet_fresh_ones() -> None:
    """Spark reuses Python workers: jobs of two, three and four ranks follow each other."""
    jobs = [ringtune.spark.run(functions.see, num_proc=ranks) for ranks in (2, 3, SLOTS, 2)]

    assert [3.0, 6.0, 10.0, 3.0] == [job[0].total for job in jobs]
    assert {one.pid for one in jobs[0]} & {one.pid for job in jobs[1:] for one in job}


def test_the_default_number_of_ranks_is_the_parallelism(
    session: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    """A line says so, unless the call is quiet."""
    ranks = ringtune.spark.run(lambda: functions.see().size)

    assert [SLOTS] * SLOTS == ranks
    assert f"ringtune.spark: runs {SLOTS} ranks, the application's parallelism" in capfd.readouterr().err
    assert session.sparkContext.defaultParallelism == SLOTS

    ringtune.spark.run(functions.see, verbose=0)

    assert not capfd.readouterr().err


@pytest.mark.usefixtures("session")
def test_a_closure_travels_by_sparks_serializer() -> None:
    """Arguments, surroundings and results may be whatever it takes."""
    offset = {"by": 10 + 1j}

    def shifted(*, of: complex) -> complex:
        import ringtune.arrays as hvd

        hvd.init()
        return offset["by"] + of * hvd.rank()

    assert [10 + 1j, 12 + 1j] == ringtune.spark.run(shifted, kwargs={"of": 2}, num_proc=2, use_gloo=True)


@pytest.mark.usefixtures("session")
def test_settings_of_the_driver_reach_the_ranks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Variables given for the job win; a place of the driver's and a service's secrets stay here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RINGTUNE_TRANSPORT", "tcp")
    monkeypatch.setenv("RINGTUNE_FUSION_BYTES", "1MiB")
    monkeypatch.setenv("HOROVOD_TIMELINE", "trace.json")
    monkeypatch.setenv("RINGTUNE_RANK", "7")
    monkeypatch.setenv("RINGTUNE_JOB_KEY", "00" * 32)
    monkeypatch.setenv("RINGTUNE_SERVICE_ADMIN_TOKEN", "secret")
    names = ("RINGTUNE_FUSION_BYTES", "HOROVOD_TIMELINE", "RINGTUNE_RANK", "HOROVOD_SIZE", "MINE")
    kept = ("RINGTUNE_SERVICE_ADMIN_TOKEN", "PATH")

    found = ringtune.spark.run(
        functions.variables, (*names, *kept), num_proc=2, env={"MINE": "x", "RINGTUNE_FUSION_BYTES": "2MiB"}
    )
    seen = ringtune.spark.run(functions.see, num_proc=2)

    assert ["2MiB", str(tmp_path / "trace.json"), "1", "2", "x", None] == [found[1][name] for name in (*names, kept[0])]
    assert found[1]["PATH"]
    assert {"tcp"} == {one.carrier for one in seen}


def test_a_worker_is_as_before_once_its_task_has_ended(session: SparkSession) -> None:
    """The next task in it finds no place and no settings, and can train alone."""
    ringtune.spark.run(functions.see, num_proc=SLOTS, env={"MINE": "x"})

    def alone(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        list(batches)
        ours = sorted(name for name in os.environ if name.startswith(("RINGTUNE_", "HOROVOD_", "MINE")))
        yield pa.record_batch({"size": pa.array([functions.size_alone()]), "ours": pa.array([",".join(ours)])})

    rows = session.range(0, SLOTS, 1, SLOTS).mapInArrow(alone, "size bigint, ours string").collect()

    assert [(1, "")] * SLOTS == [tuple(row) for row in rows]


@pytest.mark.usefixtures("session")
def test_a_function_may_leave_the_world_and_join_it_again() -> None:
    """The second meeting takes place without the socket that was open for the first."""
    assert [[3.0, 3.0]] * 2 == ringtune.spark.run(functions.join_twice, num_proc=2)


@pytest.mark.usefixtures("session")
def test_a_result_may_be_larger_than_a_row() -> None:
    """Results come in parts."""
    size = 40 * 2**20 + 1

    results = ringtune.spark.run(functions.result_of_size, (size,), num_proc=3)

    assert [None, size, None] == [result if result is None else len(result) for result in results]
    assert bytes(range(256)) == results[1][256:512]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("rank", [0, 2])
def test_the_error_of_the_rank_that_raised_is_shown(rank: int) -> None:
    """The others lose it in a collective, which is not shown; the next job runs."""
    with pytest.raises(RankFailedError) as caught:
        ringtune.spark.run(functions.raise_on, (rank, "unbelievable"), num_proc=3)

    assert str(caught.value).startswith(f"rank {rank} of 3 raised ValueError: unbelievable\non two lines\n\nTraceback")
    assert rank == caught.value.rank
    assert 'raise ValueError(f"{word}' in caught.value.traceback_text
    assert "PeerLostError" not in str(caught.value)
    assert 3.0 == ringtune.spark.run(functions.see, num_proc=2)[0].total


@pytest.mark.usefixtures("session")
def test_a_result_that_cannot_be_sent_is_named() -> None:
    """Its type is in the error, and the rank."""
    with pytest.raises(
        RankFailedError, match=r"rank 1 of 2 raised ConfigError: the result, a _thread\.lock, cannot be"
    ):
        ringtune.spark.run(functions.lock_unless_first, num_proc=2)


@pytest.mark.usefixtures("session")
def test_a_rank_that_exits_has_failed() -> None:
    """Its exit code is in the error."""
    with pytest.raises(RankFailedError, match="rank 1 of 2 raised SystemExit: 3"):
        ringtune.spark.run(functions.exit_on, (1,), num_proc=2)


@pytest.mark.usefixtures("session")
def test_a_killed_rank_ends_the_job() -> None:
    """The error quotes Spark's reason, and the next job runs."""
    with pytest.raises(RankFailedError, match=r"rank 1 ended without a result, .* exited unexpectedly") as caught:
        ringtune.spark.run(functions.kill_on, (1,), num_proc=2)

    assert 1 == caught.value.rank
    assert 3.0 == ringtune.spark.run(functions.see, num_proc=2)[0].total


@pytest.mark.usefixtures("session")
def test_more_ranks_than_slots_are_refused_before_the_job() -> None:
    """Both numbers are named; Spark alone looks again for ten minutes."""
    expected = rf"9 ranks need 9 task slots at the same time, and the Spark application has {SLOTS} \(spark.master="
    with pytest.raises(ConfigError, match=expected):
        ringtune.spark.run(functions.see, num_proc=9)


def test_ranks_that_do_not_start_in_time_are_counted(session: SparkSession) -> None:
    """Another job holds the slots; the limit is named, and the job is cancelled."""
    release = threading.Event()
    tag = "holder"

    def hold() -> None:
        session.sparkContext.addJobTag(tag)
        try:
            session.range(0, SLOTS, 1, SLOTS).mapInArrow(_held, "id bigint").collect()
        except Exception:  # noqa: BLE001  (it is cancelled)
            release.set()

    holder = threading.Thread(target=hold)
    holder.start()
    tracker = session.sparkContext.statusTracker()
    while not any(
        (stage := tracker.getStageInfo(number)) is not None and stage.numActiveTasks == SLOTS
        for number in tracker.getActiveStageIds()
    ):
        assert holder.is_alive()
    try:
        with pytest.raises(ConfigError, match=r"0 of 2 ranks had started after 3 s, the start_timeout; Spark starts"):
            ringtune.spark.run(functions.see, num_proc=2, start_timeout=3)
    finally:
        session.sparkContext.cancelJobsWithTag(tag)
        holder.join()

    assert release.is_set()


def _held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import threading

    list(batches)
    threading.Event().wait()
    yield pa.record_batch({"id": pa.array([0])})


@pytest.mark.usefixtures("session")
def test_an_elastic_job_needs_a_session_that_repeats_tasks() -> None:
    """On one machine Spark starts a lost task anew only if it is told to."""
    with pytest.raises(ConfigError, match=rf"spark.master=local\[{SLOTS}\]; use local\[N,F\]"):
        ringtune.spark.run_elastic(functions.see, num_proc=2)


@pytest.mark.usefixtures("session")
def test_a_wrong_setting_is_an_error_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No job is started for it."""
    monkeypatch.setenv("RINGTUNE_CYCLE_MS", "soon")
    with pytest.raises(ConfigError, match="RINGTUNE_CYCLE_MS"):
        ringtune.spark.run(functions.see, num_proc=2)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_proc": 0}, "0 ranks are not possible"),
        ({"start_timeout": 0}, "start_timeout=0 is not possible"),
        ({"use_mpi": True}, "started by Spark, not by mpirun"),
        ({"executable": "python"}, "spark.pyspark.python"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    """Each by a sentence that names the argument and the remedy."""
    with pytest.raises(ConfigError, match=message):
        ringtune.spark.run(functions.see, **arguments)  # type: ignore[arg-type]


@pytest.mark.usefixtures("session")
def test_an_unknown_argument_is_a_type_error() -> None:
    """An ignored argument would seem to have an effect."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'nproc'"):
        ringtune.spark.run(functions.see, nproc=2)  # type: ignore[call-arg]


@pytest.mark.usefixtures("session")
def test_a_tuned_job_logs_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A relative name begins in the driver's folder."""
    monkeypatch.chdir(tmp_path)
    for name, value in {**QUICK, "AUTOTUNE_LOG": "tuning.jsonl", "RINGTUNE_ALGORITHM_TABLE": "default"}.items():
        monkeypatch.setenv(name, value)

    results = ringtune.spark.run(functions.train_until_tuned, (20_000,), num_proc=2)

    records = [json.loads(line) for line in (tmp_path / "tuning.jsonl").read_text(encoding="utf-8").splitlines()]
    assert results[0] == results[1]
    assert results[0][0] < 20_000
    assert {"run", "sample", "result"} <= {record["type"] for record in records}


@pytest.mark.usefixtures("session")
def test_output_of_the_ranks_comes_here_line_by_line() -> None:
    """Each line begins with its rank; programs' output comes along, and an unfinished line at the end."""
    out, err = StringIO(), StringIO()

    ringtune.spark.run(functions.write_lines, (5,), num_proc=2, stdout=out, stderr=err)

    expected = [*(f"line {number} of rank {{}}" for number in range(5)), "from a program", "no end"]
    for rank in (0, 1):
        lines = [line.partition(" ")[2] for line in out.getvalue().splitlines() if line.startswith(f"[{rank}] ")]
        assert [line.format(rank) for line in expected] == lines
        assert f"[{rank}] grüße to stderr\n" in err.getvalue()
    assert 14 == len(out.getvalue().splitlines())


@pytest.mark.usefixtures("session")
def test_output_of_a_job_that_fails_comes_as_well() -> None:
    """A stream that the caller has closed disturbs no rank."""
    out, closed = StringIO(), StringIO()
    closed.close()

    with pytest.raises(RankFailedError, match="rank 1 of 2 raised ValueError"):
        ringtune.spark.run(functions.say_and_raise_on, (1,), num_proc=2, stdout=out, stderr=closed)

    assert "[1] about to raise\n" in out.getvalue()


@pytest.mark.usefixtures("session")
def test_the_runner_returns_rank_zeros_result() -> None:
    """Other ranks may return values that cannot be serialized."""
    assert "first" == ringtune.spark.HorovodRunner(np=2).run(functions.lock_unless_first)
    assert 3.0 == ringtune.spark.HorovodRunner(np=2).run(functions.see, value=1.0).total
    assert SLOTS == ringtune.spark.HorovodRunner(np=0).run(functions.see).size


@pytest.mark.usefixtures("session")
def test_the_runner_shows_all_output(capsys: pytest.CaptureFixture[str]) -> None:
    """Its verbosity `all` is for that."""
    ringtune.spark.HorovodRunner(np=2, driver_log_verbosity="all").run(functions.write_lines, count=1)

    assert "[1] line 0 of rank 1\n" in capsys.readouterr().out


def test_the_runner_tries_a_function_on_processes_of_this_machine() -> None:
    """A number below 0 needs no Spark."""
    found = ringtune.spark.HorovodRunner(np=-2).run(functions.variables_by_name, name="RINGTUNE_WORLD_SIZE")

    assert "2" == found


def test_the_runner_refuses_an_unknown_verbosity() -> None:
    """The allowed ones are named."""
    with pytest.raises(ConfigError, match="log_callback_only, all"):
        ringtune.spark.HorovodRunner(np=1, driver_log_verbosity="much")


def test_without_a_session_the_error_says_how_to_make_one() -> None:
    """No session is started by the call."""
    code = "import ringtune.spark; ringtune.spark.run(print, num_proc=1)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)

    assert "ConfigError: no Spark session is active; make one before the job" in finished.stderr
