# SPDX-License-Identifier: Apache-2.0
"""A meeting prepared over a platform's own channel, such as Ray's, by a process that can reach all ranks.

Sites are gathered, rank 0 listens before any rank gets the address, and each rank gets its place as variables. The
channel is trusted: every process that can read it can join the job.
"""

import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from ringtune.meeting.rendezvous.address import bound_address, listen
from ringtune.meeting.rendezvous.layout import Layout, assign_hosts
from ringtune.meeting.rendezvous.site import Site, meeting_place

from .exchange import KEY_BYTES
from .explicit import JOB_KEY_NAME, address_of_meeting


@dataclass(frozen=True)
class MeetingPoint:
    """Address, key and members of a meeting.

    Attributes:
        rendezvous: `RINGTUNE_RENDEZVOUS` of its ranks.
        hosts: Each rank's host, numbered from 0 in the order of the hosts' first ranks.
        job_key: Secret of this meeting, in hex; no other has it.
    """

    rendezvous: str
    hosts: tuple[int, ...]
    job_key: str = field(repr=False)

    def variables(self, rank: int) -> dict[str, str]:
        """Return the variables that give a rank its place, Horovod's names included."""
        layout = Layout(rank, self.hosts)
        return {
            "RINGTUNE_RANK": str(rank),
            "RINGTUNE_WORLD_SIZE": str(layout.world_size),
            "RINGTUNE_RENDEZVOUS": self.rendezvous,
            JOB_KEY_NAME: self.job_key,
            "HOROVOD_RANK": str(rank),
            "HOROVOD_SIZE": str(layout.world_size),
            "HOROVOD_LOCAL_RANK": str(layout.local_rank),
            "HOROVOD_LOCAL_SIZE": str(layout.local_size),
            "HOROVOD_CROSS_RANK": str(layout.cross_rank),
            "HOROVOD_CROSS_SIZE": str(layout.cross_size),
        }


def open_meeting_point(sites: Sequence[Site]) -> tuple[socket.socket, MeetingPoint]:
    """Listen for the first meeting under a fresh key; called in rank 0's process.

    Args:
        sites: Every rank's, in their order.

    Returns:
        The open socket, for `Session.hand_over`, and the meeting point for the ranks.

    Raises:
        ConfigError: If rank 0 cannot listen where all could reach it.
    """
    address = meeting_place(sites)
    listener = listen(address_of_meeting(address, 0))
    rendezvous = address if address.scheme == "unix" else bound_address(listener)
    hosts = assign_hosts([site.host for site in sites], "auto", ())
    return listener, MeetingPoint(str(rendezvous), hosts, secrets.token_hex(KEY_BYTES))
