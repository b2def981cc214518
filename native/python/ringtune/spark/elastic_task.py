# SPDX-License-Identifier: Apache-2.0
"""A worker of an elastic job in a task of Spark's: the driver's rendezvous server gives it one rank after the other."""

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext

from ringtune.errors import DismissedError
from ringtune.meeting.bootstrap.explicit import JOB_KEY_NAME
from ringtune.meeting.bootstrap.joining import RENDEZVOUS_NAME, WORKER_ID_NAME
from ringtune.session.session import SESSION

from .call import Call
from .output_copy import copied_output
from .rank_errors import is_consequence, is_dismissal, rank_error
from .results import parts_of
from .worker_environment import changed_environment

SCHEMA = "meeting bigint, rank bigint, size bigint, part binary"
"""Columns of the results: latest meeting of the worker, its rank there, number of ranks there, and a part."""
CONSEQUENCE_DELAY_S = (
    2.0  # delay of a rank that lost a peer: the task that causes the losses fails first and most often
)


def run_worker(call: Call, server: str, job_key: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Call the function as a worker; yield its result, or no batch if the job has ended without it.

    Args:
        call: The call.
        server: Address of the rendezvous server.
        job_key: Secret of the job, in hex.
        batches: The task's partition; its rows are ignored.

    Raises:
        RankError: If the function raised.
    """
    for _ in batches:
        pass
    context = TaskContext.get()
    assert context is not None
    number = context.partitionId()
    place = {RENDEZVOUS_NAME: server, JOB_KEY_NAME: job_key, WORKER_ID_NAME: f"{number}.{context.attemptNumber()}"}
    SESSION.forget_place()
    with changed_environment({**call.variables, **place}), copied_output(call.output, number):
        try:
            (meeting, rank, size), parts = _called(call)
        except DismissedError:  # the others have finished before this task began
            return
    for part in parts:
        columns = {"meeting": [meeting], "rank": [rank], "size": [size], "part": [part]}
        yield pa.record_batch({name: pa.array(values) for name, values in columns.items()})


def _called(call: Call) -> tuple[tuple[int, int, int], list[bytes]]:
    """Return (meeting, rank, size) of the last world, and the function's result in parts."""
    try:
        parts = parts_of(call.function(*call.args, **call.kwargs))
        meeting, rank = (SESSION.rendezvous.latest if SESSION.rendezvous is not None else None) or (0, 0)
        size = SESSION.require().size
    except (Exception, SystemExit) as error:  # noqa: BLE001  (it is the user's, whatever it is)
        if is_dismissal(error):
            raise DismissedError(str(error)) from None
        if SESSION.rendezvous is not None:
            SESSION.rendezvous.is_unfinished = True
        if is_consequence(error):
            time.sleep(CONSEQUENCE_DELAY_S)
        rank, size = (SESSION.require().rank, SESSION.require().size) if SESSION.is_initialized else (0, 0)
        raise rank_error(rank, size, error) from None
    finally:
        SESSION.forget_place()
    return (meeting, rank, size), parts
