# SPDX-License-Identifier: Apache-2.0
"""The driver's side of `ringtune.spark.run`: one stage in barrier mode through the DataFrame API, and its results.

Spark Connect has DataFrames and no RDDs, so that this one way serves both kinds of session.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from pyspark.sql import SparkSession

from ringtune._engine import allreduce_algorithms
from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap import environment
from ringtune.settings.settings import Settings
from ringtune.system.console import write_line
from ringtune.system.counts import counted

from .active_session import active_session
from .call import Call
from .driver_host import driver_host
from .failures import SPARK_ERRORS, failure_of
from .forwarding import rank_variables
from .job_arguments import DEFAULT_START_TIMEOUT_S, START_TIMEOUT_NAME, check_refused, time_limit_s
from .output_collector import OutputCollector
from .results import joined
from .slots import check_mode, default_ranks, wait_for_slots
from .start_watch import StartWatch
from .task import SCHEMA, run_rank

if TYPE_CHECKING:
    import pyarrow as pa


def run(  # noqa: PLR0917  (Horovod's signature)
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    start_timeout: float | None = None,
    use_mpi: bool | None = None,
    use_gloo: bool | None = None,
    extra_mpi_args: str | None = None,
    env: Mapping[str, str] | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    verbose: int = 1,
    nics: Iterable[str] | None = None,
    prefix_output_with_timestamp: bool = False,  # noqa: FBT002
    executable: str | None = None,
) -> list[Any]:
    """Run a function on ranks that are tasks of the active Spark session, and return each rank's result.

    The function calls `init()` of its front end itself. It travels with its arguments by Spark's serializer, and its
    results come back by it; closures and lambdas are possible, open files and models on a GPU are not. Ranks on one
    host share its memory.

    Args:
        fn: The function.
        args: Its positional arguments, the same on every rank.
        kwargs: Its keyword arguments.
        num_proc: Number of ranks; None for the application's parallelism.
        start_timeout: Seconds in which all ranks must have started; None for `HOROVOD_SPARK_START_TIMEOUT`, or 600.
        use_mpi: Horovod's; refused, for Spark starts the ranks.
        use_gloo: Horovod's word for "without MPI", which is the only way here.
        extra_mpi_args: Horovod's; refused.
        env: Variables of the ranks, on top of the driver's `AUTOTUNE*`, `RINGTUNE_*` and `HOROVOD_*`.
        stdout: Stream for the ranks' standard output, while they run; None leaves it to the executors' logs.
        stderr: Likewise.
        verbose: 0 is silent; 1 writes the number of ranks to standard error, if `num_proc` was not given.
        nics: Horovod's; refused, for the ranks take the network that leads to the others.
        prefix_output_with_timestamp: Whether the time is put before each line of `stdout` and `stderr`.
        executable: Horovod's; refused, for the ranks run in Spark's Python.

    Returns:
        The results, by rank.

    Raises:
        ConfigError: If arguments, variables or the session do not allow the job; no rank was started.
        ringtune.run_function.RankFailedError: If a rank raised, with its traceback, or ended; no rank runs any more.
    """
    del use_gloo
    check_refused("run", use_mpi=use_mpi, extra_mpi_args=extra_mpi_args, nics=nics, executable=executable)
    call = Call(fn, tuple(args), dict(kwargs or {}), rank_variables(environment(), env or {}))
    given = {name: stream for name, stream in (("stdout", stdout), ("stderr", stderr)) if stream is not None}
    return run_call(call, num_proc, start_timeout, given, is_silent=verbose < 1, has_time=prefix_output_with_timestamp)


def run_call(
    call: Call,
    ranks: int | None,
    start_timeout: float | None = None,
    streams: Mapping[str, TextIO] | None = None,
    *,
    is_silent: bool = False,
    has_time: bool = False,
) -> list[Any]:
    """Run a call on ranks of the active session; see `run`.

    Args:
        call: The call.
        ranks: Number of ranks; None for the application's parallelism.
        start_timeout: Seconds; see `run`.
        streams: Streams for the ranks' output, by `stdout` and `stderr`.
        is_silent: Whether a number of ranks that was not given is left unprinted.
        has_time: Whether the time is put before each line of the streams.
    """
    if ranks is not None and ranks < 1:
        raise ConfigError(f"{ranks} ranks are not possible; allowed: at least 1, or None for all that run in parallel")
    limit_s = time_limit_s("start_timeout", start_timeout, START_TIMEOUT_NAME, DEFAULT_START_TIMEOUT_S)
    Settings.from_environment(call.variables, allreduce_algorithms())  # an error here, not one in the job
    session = active_session()
    check_mode(session)
    if ranks is None:
        ranks = default_ranks(session)
        if not is_silent:
            number = counted(ranks, "rank")
            write_line(f"ringtune.spark: runs {number}, the application's parallelism; num_proc chooses another")
    wait_for_slots(session, ranks, limit_s)
    if not streams:
        return _results(_rows(session, call, ranks, limit_s), ranks)
    host = driver_host(session, "stdout and stderr cannot be collected")
    with OutputCollector(host, streams, has_time=has_time) as target:
        return _results(_rows(session, replace(call, output=target), ranks, limit_s), ranks)


def _rows(session: SparkSession, call: Call, ranks: int, limit_s: float) -> list[Any]:
    """Run the stage to its end and return its rows; the ranks of a rank's rows are in order."""

    def task(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        yield from run_rank(call, batches)

    frame = session.range(0, ranks, 1, ranks).mapInArrow(task, SCHEMA, barrier=True)
    try:
        with StartWatch(session, ranks, limit_s):
            rows: list[Any] = frame.collect()
    except SPARK_ERRORS as error:
        raise failure_of(error) from error
    return rows


def _results(rows: Iterable[Any], ranks: int) -> list[Any]:
    parts: dict[int, list[bytes]] = defaultdict(list)
    for row in rows:
        parts[row.rank].append(bytes(row.part))
    return [joined(parts[rank]) for rank in range(ranks)]
