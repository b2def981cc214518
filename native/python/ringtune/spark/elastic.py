# SPDX-License-Identifier: Apache-2.0
"""`run_elastic`: as many tasks as may train, each of which joins the job when Spark starts it, and may be lost.

The stage is an ordinary one: its tasks begin as slots become free, and Spark starts a lost task anew. The driver serves
the rendezvous at which they get ranks.
"""

import secrets
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from pyspark.sql import SparkSession

from ringtune._engine import allreduce_algorithms
from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap import environment
from ringtune.meeting.bootstrap.tls_variables import read_tls
from ringtune.meeting.rendezvous.roster import FixedRoster, RangeRoster, Roster
from ringtune.meeting.rendezvous.server import Patience, RendezvousServer
from ringtune.meeting.rendezvous.tls import Tls
from ringtune.run_function import RankFailedError
from ringtune.settings.settings import Settings
from ringtune.system.console import write_line
from ringtune.system.counts import counted

from .active_session import active_session, setting
from .call import Call
from .driver_host import driver_host
from .elastic_task import SCHEMA, run_worker
from .failures import SPARK_ERRORS, failure_of
from .forwarding import rank_variables
from .job_arguments import DEFAULT_START_TIMEOUT_S, START_TIMEOUT_NAME, check_refused, time_limit_s
from .output_collector import OutputCollector
from .reset_limit import LimitedRoster
from .results import joined
from .slots import check_repeats_tasks, default_ranks, wait_for_slots

if TYPE_CHECKING:
    import pyarrow as pa

ELASTIC_TIMEOUT_NAME = "HOROVOD_ELASTIC_TIMEOUT"
DEFAULT_ELASTIC_TIMEOUT_S = 600.0  # wait for enough workers after a loss: Horovod's default
QUIET_S = 5.0  # the first meeting of fewer than the largest number begins when no task has started for so long
_KEY_BYTES = 32
_LONGEST_TURN_S = 0.5


@dataclass(frozen=True)
class WorkerRange:
    """Numbers of workers that may train.

    Attributes:
        least: Smallest number.
        most: Largest number.
    """

    least: int
    most: int


def run_elastic(  # noqa: PLR0917  (Horovod's signature)
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    start_timeout: float | None = None,
    elastic_timeout: float | None = None,
    reset_limit: int | None = None,
    env: Mapping[str, str] | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    verbose: int = 1,
    nics: Iterable[str] | None = None,
    prefix_output_with_timestamp: bool = False,  # noqa: FBT002
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Any]:
    """Run a function that trains elastically on tasks of the active Spark session; return its results by rank.

    The function trains in a loop of `hvd.elastic.run`. A rank begins whenever Spark has a slot for its task, up to the
    largest number; a lost one is started anew by Spark, up to `spark.task.maxFailures` times for each task. Dynamic
    allocation may be on.

    Args:
        fn: The function.
        args: Its positional arguments, the same on every rank.
        kwargs: Its keyword arguments.
        num_proc: Number of ranks to begin with where no range is given; None for the application's parallelism.
        min_num_proc: Smallest number of ranks that may train; None for `num_proc`.
        max_num_proc: Largest number; None for `num_proc`, or the smallest number if that is larger.
        start_timeout: Seconds in which there must be slots for the smallest number; see `run`.
        elastic_timeout: Seconds of the ranks' wait for that number; None for `HOROVOD_ELASTIC_TIMEOUT`, or 600.
        reset_limit: Number of times that the ranks may meet again; None for any.
        env: Variables of the ranks; see `run`.
        stdout: Stream for the ranks' output; lines begin with the number of the task, which a rank keeps.
        stderr: Likewise.
        verbose: 0 is silent; 1 writes the number of ranks to standard error, if it was not given.
        nics: Horovod's; refused, for the ranks take the network that leads to the others.
        prefix_output_with_timestamp: Whether the time is put before each line of `stdout` and `stderr`.
        min_np: Horovod's older spelling of `min_num_proc`.
        max_np: Horovod's older spelling of `max_num_proc`.

    Raises:
        ConfigError: If arguments, variables or the session do not allow the job; no rank was started.
        ringtune.run_function.RankFailedError: If the job could not go on, or had no reset left.
    """
    check_refused("run_elastic", nics=nics)
    call = Call(fn, tuple(args), dict(kwargs or {}), rank_variables(environment(), env or {}))
    numbers = (num_proc, _one_of("min", min_num_proc, min_np), _one_of("max", max_num_proc, max_np))
    streams = {name: stream for name, stream in (("stdout", stdout), ("stderr", stderr)) if stream is not None}
    job = _Job(numbers, start_timeout, elastic_timeout, reset_limit, streams, prefix_output_with_timestamp)
    return job.run(call, is_silent=verbose < 1)


@dataclass(frozen=True)
class _Job:
    """Arguments of a job, of its caller; `numbers` are those of ranks: to begin with, smallest, largest."""

    numbers: tuple[int | None, int | None, int | None]
    start_timeout: float | None
    elastic_timeout: float | None
    reset_limit: int | None
    streams: Mapping[str, TextIO]
    has_time: bool

    def run(self, call: Call, *, is_silent: bool) -> list[Any]:
        """Run the call; see `run_elastic`."""
        Settings.from_environment(call.variables, allreduce_algorithms())  # an error here, not one in the job
        session = active_session()
        host = driver_host(session, "an elastic job's rendezvous cannot be served")
        check_repeats_tasks(session)
        workers = _range(session, *self.numbers)
        if not is_silent and self.numbers == (None, None, None):
            ranks = counted(workers.most, "rank")
            write_line(f"ringtune.spark: {ranks}, the application's parallelism; num_proc chooses another")
        limit_s = time_limit_s("start_timeout", self.start_timeout, START_TIMEOUT_NAME, DEFAULT_START_TIMEOUT_S)
        patience_s = time_limit_s(
            "elastic_timeout", self.elastic_timeout, ELASTIC_TIMEOUT_NAME, DEFAULT_ELASTIC_TIMEOUT_S
        )
        least, most = workers.least, workers.most
        inner: Roster = FixedRoster(most) if least == most else RangeRoster(least, most, QUIET_S)
        roster = LimitedRoster(inner, _checked_reset_limit(self.reset_limit))
        if setting(session, "spark.dynamicAllocation.enabled") != "true":
            wait_for_slots(session, workers.least, limit_s)
        with ExitStack() as stack:
            if self.streams:
                collector = OutputCollector(host, self.streams, has_time=self.has_time)
                call = replace(call, output=stack.enter_context(collector))
            rendezvous = _Rendezvous(host, roster, Patience(meeting_s=patience_s), read_tls(call.variables))
            stack.enter_context(rendezvous)
            rows = _rows(session, call, rendezvous, workers.most)
        if roster.is_exhausted:
            raise RankFailedError(f"the ranks have changed once more than reset_limit={self.reset_limit} allows")
        return _results(rows)


def _one_of(end: str, given: int | None, older: int | None) -> int | None:
    """Return a number that has two spellings."""
    if given is not None and older is not None and given != older:
        raise ConfigError(f"{end}_num_proc={given} and {end}_np={older} are two spellings of one number; give one")
    return older if given is None else given


def _checked_reset_limit(limit: int | None) -> int | None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise ConfigError(f"run_elastic(reset_limit={limit!r}) is not possible; allowed: 0 or more, or None for any")
    return limit


def _range(session: SparkSession, num: int | None, least: int | None, most: int | None) -> WorkerRange:
    begin = num if num is not None else least or most or default_ranks(session)
    workers = WorkerRange(begin if least is None else least, max(begin, least or 0) if most is None else most)
    if not 1 <= workers.least <= begin <= workers.most:
        raise ConfigError(
            f"run_elastic(num_proc={num}, min_num_proc={least}, max_num_proc={most}) is not possible; allowed: "
            "1 <= min_num_proc <= num_proc <= max_num_proc"
        )
    return workers


class _Rendezvous:
    """Context in which a thread of the driver serves the rendezvous of a job.

    Attributes:
        job_key: Secret of the job, in hex.
        address: Address of the server, as `RINGTUNE_RENDEZVOUS` takes it.
    """

    def __init__(self, host: str, roster: LimitedRoster, patience: Patience, tls: Tls) -> None:
        key = secrets.token_bytes(_KEY_BYTES)
        self._roster = roster
        self.job_key = key.hex()
        self._server = RendezvousServer(key, host, roster, patience=patience, tls=tls)
        self.address = self._server.address
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="ringtune-rendezvous", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self._ended.is_set():
            self._server.serve_ready(_LONGEST_TURN_S)
            if self._roster.is_exhausted:
                for worker in self._server.workers:
                    self._server.dismiss(worker, "the ranks may not meet again, for no reset is left")
                self._server.serve_ready()  # those that wait hear of it at once
        self._server.close()


def _rows(session: SparkSession, call: Call, rendezvous: _Rendezvous, tasks: int) -> list[Any]:
    address, job_key = rendezvous.address, rendezvous.job_key

    def task(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        yield from run_worker(call, address, job_key, batches)

    try:
        rows: list[Any] = session.range(0, tasks, 1, tasks).mapInArrow(task, SCHEMA).collect()
    except SPARK_ERRORS as error:
        raise failure_of(error) from error
    return rows


def _results(rows: Sequence[Any]) -> list[Any]:
    """Return the results of the last world, by rank."""
    last = max((row.meeting for row in rows), default=-1)
    rows = [row for row in rows if row.meeting == last]
    parts: dict[int, list[bytes]] = defaultdict(list)
    for row in rows:
        parts[row.rank].append(bytes(row.part))
    ranks = range(max((row.size for row in rows), default=1))
    missing = sorted(set(ranks) - set(parts))
    if missing:
        raise RankFailedError(
            f"rank {', '.join(map(str, missing))} was lost when the others had finished; the executors' logs tell more",
            missing[0],
        )
    return [joined(parts[rank]) for rank in ranks]
