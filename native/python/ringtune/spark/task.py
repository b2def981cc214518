# SPDX-License-Identifier: Apache-2.0
"""A rank in a task of Spark's: it meets the others, calls the function, and yields the result as Arrow batches.

A Python worker lives on after its task and serves others: environment, world and place are as before once a task has
ended.
"""

import json
import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import BarrierTaskContext

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap import environment
from ringtune.meeting.bootstrap.meeting_point import MeetingPoint, open_meeting_point
from ringtune.meeting.rendezvous.layout import assign_hosts
from ringtune.meeting.rendezvous.site import Site, own_site
from ringtune.session.session import SESSION

from .call import Call
from .output_copy import copied_output
from .rank_errors import is_consequence, rank_error
from .results import parts_of
from .worker_environment import changed_environment

SCHEMA = "rank bigint, part binary"
"""Columns of the results; a result is the parts of its rank, joined in their order."""
CONSEQUENCE_DELAY_S = 15.0  # wait of a rank that lost a peer: Spark hears of the cause first, and then ends this task


def run_rank(call: Call, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Call the function as the rank that this task is; yield its result.

    Args:
        call: The call.
        batches: The task's partition; its rows are ignored.

    Raises:
        RankError: If the function raised.
    """
    for _ in batches:
        pass
    context = BarrierTaskContext.get()
    rank = context.partitionId()
    with changed_environment(call.variables):
        point = _meet(context)
        environment().update(point.variables(rank))
        with copied_output(call.output, rank):
            parts = _called(call, rank, len(point.hosts))
    for part in parts:
        yield pa.record_batch({"rank": pa.array([rank]), "part": pa.array([part])})


def _meet(context: BarrierTaskContext) -> MeetingPoint:
    """Return the meeting point of the stage's tasks; on rank 0 the session gets the socket that is open there."""
    SESSION.forget_place()
    sites = [Site.from_text(text) for text in context.allGather(_own_site(context).to_text())]
    listener, message = None, {}
    if context.partitionId() == 0:
        try:
            listener, point = open_meeting_point(sites)
            message = {"rendezvous": point.rendezvous, "job_key": point.job_key}
        except ConfigError as error:
            message = {"failure": str(error)}
    answer = json.loads(context.allGather(json.dumps(message))[0])
    if "failure" in answer:
        raise ConfigError(f"rank 0: {answer['failure']}")
    if listener is not None:
        SESSION.hand_over(listener)
    return MeetingPoint(
        answer["rendezvous"], assign_hosts([site.host for site in sites], "auto", ()), answer["job_key"]
    )


def _own_site(context: BarrierTaskContext) -> Site:
    """Return this task's site; the interface that Spark uses is preferred, where its name leads to one."""
    address = context.getTaskInfos()[context.partitionId()].address
    try:
        return own_site(address.rpartition(":")[0].strip("[]"))
    except ConfigError:
        return own_site()


def _called(call: Call, rank: int, size: int) -> list[bytes]:
    """Return the function's result in parts; the world is left in any case."""
    try:
        try:
            result = call.function(*call.args, **call.kwargs)
            return parts_of(result if rank == 0 or call.returns_all else None)
        finally:
            SESSION.forget_place()
    except (Exception, SystemExit) as error:  # noqa: BLE001  (it is the user's, whatever it is)
        if is_consequence(error):
            time.sleep(CONSEQUENCE_DELAY_S)
        raise rank_error(rank, size, error) from None
