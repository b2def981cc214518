# SPDX-License-Identifier: Apache-2.0
"""A worker's side of the meetings: Ray's own channel gathers the sites and spreads address and key.

The functions run in the workers' processes. Rank 0 listens before it sends the address, so that its port cannot be
taken, and each meeting has a key of its own. Every user that can submit tasks to the Ray cluster can join the job.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ray

from ringtune.meeting.bootstrap import environment
from ringtune.meeting.bootstrap.explicit import job_digest
from ringtune.meeting.bootstrap.meeting_point import MeetingPoint, open_meeting_point
from ringtune.meeting.rendezvous.site import Site, own_site
from ringtune.session.session import SESSION


@dataclass(frozen=True)
class MeetingSite:
    """A worker's site, and the world that it is in.

    Attributes:
        site: See `Site`, as text.
        world: Digest of the key of the world that the worker is in; empty for none.
    """

    site: str
    world: str


def meeting_site() -> MeetingSite:
    """Return this worker's; the address by which Ray knows the node comes first."""
    world = job_digest(SESSION.require().job_key.hex()) if SESSION.is_initialized else ""
    return MeetingSite(own_site(ray.util.get_node_ip_address()).to_text(), world)


def open_meeting(sites: Sequence[MeetingSite]) -> MeetingPoint | None:
    """Listen for the next meeting, in rank 0's process; None if all workers are in one world, which goes on.

    Args:
        sites: Every worker's, by rank.

    Raises:
        ConfigError: If rank 0 cannot listen where all could reach it.
    """
    worlds = {site.world for site in sites}
    if len(worlds) == 1 and "" not in worlds and SESSION.require().size == len(sites):
        return None
    listener, point = open_meeting_point([Site.from_text(site.site) for site in sites])
    SESSION.hand_over(listener)
    return point


def enter_meeting(point: MeetingPoint | None, rank: int, variables: Mapping[str, str] | None = None) -> None:
    """Have this worker's next `init()` take part in a meeting; a world that not all workers are in is left.

    Args:
        point: The meeting; None keeps the world that the worker is in.
        rank: This worker's rank.
        variables: Variables to set besides.
    """
    environ = environment()
    environ.update(variables or {})
    if point is not None:
        SESSION.shutdown()
        environ.update(point.variables(rank))


def leave_world() -> None:
    """Leave the world, if there is one: ranks that still wait for this one get `PeerLostError` at once."""
    SESSION.shutdown()


def leave_job(*, is_done: bool) -> None:
    """Leave the world and an elastic job.

    Args:
        is_done: Whether this worker's work is done; otherwise it is a loss to the job.
    """
    SESSION.shutdown()
    if SESSION.rendezvous is not None and is_done:
        SESSION.rendezvous.done()
    elif SESSION.rendezvous is not None:
        SESSION.rendezvous.close()
