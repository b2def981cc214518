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
from ringtune.bootstrap import environment
from ringtune.console import write_line
from ringtune.errors import ConfigError
from ringtune.settings import Settings

from .active_session import active_session
from .call import Call
from .driver_host import driver_host
from .failures import SPARK_ERRORS, failure_of
from .forwarding import rank_variables
from .output_collector import OutputCollector
from .results import joined
from .slots import check_mode, default_ranks, wait_for_slots
from .start_watch import StartWatch
from .task import SCHEMA, run_rank

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_START_TIMEOUT_S = 600.0  # time in which all ranks must have started: Horovod's default
START_TIMEOUT_NAME = "HOROVOD_SPARK_START_TIMEOUT"
_GLOO = "use_gloo"  # Horovod's word for "without MPI", which is the only way here
_REFUSED = {
    "use_mpi": "the ranks are started by Spark, not by mpirun",
    "extra_mpi_args": "the ranks are started by Spark, not by mpirun",
    "nics": "the ranks take the network that leads to the others",
    "prefix_output_with_timestamp": "lines come as the ranks write them",
    "executable": "the ranks run in Spark's Python: set spark.pyspark.python",
}


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    start_timeout: float | None = None,
    *,
    env: Mapping[str, str] | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    verbose: int = 1,
    **horovod: Any,
) -> list[Any]:
    """Run a function on ranks that are tasks of the active Spark session, and return what it returned on each.

    The function calls `init()` of its front end itself. It travels with its arguments by Spark's serializer, and its
    results come back by it; closures and lambdas are possible, open files and models on a GPU are not. Ranks on one
    host share its memory.

    Args:
        fn: The function.
        args: Its positional arguments, the same on every rank.
        kwargs: Its keyword arguments.
        num_proc: Number of ranks; None for the application's parallelism.
        start_timeout: Seconds in which all ranks must have started; None for `HOROVOD_SPARK_START_TIMEOUT`, or 600.
        env: Variables of the ranks, on top of the driver's `AUTOTUNE*`, `RINGTUNE_*` and `HOROVOD_*`.
        stdout: Stream for what the ranks write on theirs, while they run; None leaves it to the executors' logs.
        stderr: Likewise.
        verbose: 0 says nothing; 1 says on standard error how many ranks run, if `num_proc` was not given.
        **horovod: Other arguments of `horovod.spark.run`: `use_gloo=True` is how it always is; others are refused.

    Returns:
        The results, by rank.

    Raises:
        ConfigError: If arguments, variables or the session do not allow the job; nothing was started.
        ringtune.run_function.RankFailedError: If a rank raised, with its traceback, or ended; no rank runs any more.
    """
    _check_others(horovod)
    call = Call(fn, tuple(args), dict(kwargs or {}), rank_variables(environment(), env or {}))
    given = {name: stream for name, stream in (("stdout", stdout), ("stderr", stderr)) if stream is not None}
    return run_call(call, num_proc, start_timeout, given, is_silent=verbose < 1)


def run_call(
    call: Call,
    ranks: int | None,
    start_timeout: float | None = None,
    streams: Mapping[str, TextIO] | None = None,
    *,
    is_silent: bool = False,
) -> list[Any]:
    """Run a call on ranks of the active session; see `run`.

    Args:
        call: The call.
        ranks: Number of ranks; None for the application's parallelism.
        start_timeout: Seconds; see `run`.
        streams: Streams for the ranks' output, by `stdout` and `stderr`.
        is_silent: Whether nothing is said about a number of ranks that was not given.
    """
    if ranks is not None and ranks < 1:
        raise ConfigError(f"{ranks} ranks are not possible; allowed: at least 1, or None for all that run in parallel")
    limit_s = _start_limit_s(start_timeout)
    Settings.from_environment(call.variables, allreduce_algorithms())  # an error here, not one in the job
    session = active_session()
    check_mode(session)
    if ranks is None:
        ranks = default_ranks(session)
        if not is_silent:
            write_line(f"ringtune.spark: runs {ranks} ranks, the application's parallelism; num_proc chooses another")
    wait_for_slots(session, ranks, limit_s)
    if not streams:
        return _results(_rows(session, call, ranks, limit_s), ranks)
    with OutputCollector(driver_host(session, "stdout and stderr cannot be collected"), streams) as target:
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


def _start_limit_s(start_timeout: float | None) -> float:
    text = environment().get(START_TIMEOUT_NAME, DEFAULT_START_TIMEOUT_S) if start_timeout is None else start_timeout
    origin = START_TIMEOUT_NAME if start_timeout is None else "start_timeout"
    try:
        limit_s = float(text)
    except ValueError:
        limit_s = 0.0
    if not limit_s > 0:
        raise ConfigError(f"{origin}={text!r} is not possible; allowed: a number of seconds over 0")
    return limit_s


def _check_others(horovod: Mapping[str, Any]) -> None:
    for name, value in horovod.items():
        if name not in {*_REFUSED, _GLOO}:
            raise TypeError(f"ringtune.spark.run() got an unexpected keyword argument {name!r}")
        if value and name != _GLOO:
            raise ConfigError(f"ringtune.spark.run({name}={value!r}) is not possible: {_REFUSED[name]}")
