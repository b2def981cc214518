# SPDX-License-Identifier: Apache-2.0
"""The actor behind each rank of an executor: it holds the user's object and runs functions, one after the other."""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from ringtune.errors import CollectiveTimeout, PeerLostError
from ringtune.meeting.bootstrap import environment
from ringtune.meeting.bootstrap.meeting_point import MeetingPoint
from ringtune.meeting.rendezvous.place import host_identity

from .meeting import MeetingSite, enter_meeting, leave_job, leave_world, meeting_site, open_meeting


@dataclass(frozen=True)
class WorkerFacts:
    """A worker's word on itself, once it runs.

    Attributes:
        node: Ray's id of its node.
        host: Identity of its host, equal for workers that can share memory.
        name: Name of its host.
        address: The node's address, as Ray knows it.
        pid: Its process.
        gpus: Ids of the GPUs that Ray gave to it.
    """

    node: str
    host: str
    name: str
    address: str
    pid: int
    gpus: tuple[str, ...]

    @property
    def where(self) -> str:
        """The process in words."""
        return f"process {self.pid} on node {self.address} ({self.name}, Ray's id {self.node})"


class RankWorker:
    """A rank's process. Ray calls one method at a time, in the order of submission."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        """Take the job's settings over, before anything is imported that reads them."""
        environment().update(variables)
        self._executable: Any = None

    def facts(self) -> WorkerFacts:
        """Return the facts by which the executor gives this worker a rank."""
        context = ray.get_runtime_context()
        return WorkerFacts(
            node=context.get_node_id(),
            host=host_identity(),
            name=socket.gethostname(),
            address=ray.util.get_node_ip_address(),
            pid=os.getpid(),
            gpus=tuple(str(gpu) for gpu in context.get_accelerator_ids().get("GPU", ())),
        )

    def set_variables(self, variables: Mapping[str, str]) -> None:
        """Set environment variables of this process."""
        environment().update(variables)

    def site(self) -> MeetingSite:
        """See `meeting_site`."""
        return meeting_site()

    def open_meeting(self, *sites: MeetingSite) -> MeetingPoint | None:
        """See `open_meeting`."""
        return open_meeting(sites)

    def start_executable(
        self,
        point: MeetingPoint | None,
        rank: int,
        kind: Callable[..., Any] | None,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        """Make the user's object, whose constructor may call `init()`."""
        enter_meeting(point, rank)
        if kind is not None:
            self._executable = self._guarded(kind, args, kwargs)

    def execute(self, point: MeetingPoint | None, rank: int, function: Callable[[Any], Any]) -> Any:
        """Return the result of a function for the user's object."""
        enter_meeting(point, rank)
        return self._guarded(function, (self._executable,), {})

    def run(
        self,
        point: MeetingPoint | None,
        rank: int,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Return the result of a function for arguments."""
        enter_meeting(point, rank)
        return self._guarded(function, args, kwargs)

    def train(self, function: Callable[[], Any]) -> Any:
        """Return the result of an elastic job's function, and report to the rendezvous how this worker has ended."""
        try:
            result = function()
        except BaseException:
            leave_job(is_done=False)
            raise
        leave_job(is_done=True)
        return result

    def leave_world(self) -> None:
        """See `leave_world`."""
        leave_world()

    def _guarded(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function; a world that is lost is left, so that the next call can meet in a new one."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if _tells_of_lost_world(error):
                leave_world()
            raise


def _tells_of_lost_world(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, PeerLostError | CollectiveTimeout):
            return True
        error = error.__cause__ or error.__context__
    return False
