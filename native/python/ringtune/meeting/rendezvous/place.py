# SPDX-License-Identifier: Apache-2.0
"""Place of a process in the world, and its offer to the meeting of the ranks."""

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ringtune.errors import ConfigError, RingtuneError

from .address import Address
from .layout import Layout
from .proof import Membership
from .tls import CLEAR, Session, Tls

MAX_TUNED_SOCKETS = (
    64  # data sockets of a rank that a tuner's trials need, at most: each takes a millisecond at the start
)


class Watch(Protocol):
    """A connection on which a rank learns that another one has ended, before the two have met."""

    def fileno(self) -> int:
        """Return the descriptor that can be read when there may be news; -1 where the connection has ended."""

    def has_news(self) -> bool:
        """Return whether one has ended; takes in the news that have come, without waiting."""

    def check(self) -> None:
        """Raise `PeerLostError` if one has ended."""


@dataclass(frozen=True)
class Place:
    """One rank's place, as the launcher or torch gave it.

    Attributes:
        rank: This process.
        world_size: Number of ranks.
        generation: Number of meetings before this one under the same job key, or in the same store of torch's.
        source: Their source, for messages: `RINGTUNE_RANK`, `torch.distributed`, `torchrun`, `MPI`, `srun`, `join` or
            `alone`.
        address: Address of the meeting with rank 0; None in a world of one.
        job_key: Secret that all ranks of the job share; empty in a world of one.
        listener: On rank 0, the socket that listens on the address, where it is open already; the meeting takes it.
        watch: News of other ranks' ends, where a launcher or server observes them.
        tls: Protection of the TCP connections to other ranks.
    """

    rank: int
    world_size: int
    generation: int
    source: str
    address: Address | None = None
    job_key: bytes = field(default=b"", repr=False)
    listener: socket.socket | None = None
    watch: Watch | None = None
    tls: Tls = CLEAR

    @property
    def membership(self) -> Membership:
        """Membership that makes this process a rank of the job, to the others."""
        return Membership(self.rank, self.generation, self.job_key, self.tls)

    def require_address(self) -> Address:
        """Return the address; ConfigError where none was given."""
        if self.address is None:
            raise ConfigError(f"{self.source} told no address of rank 0 for a world of {self.world_size} ranks")
        return self.address


@dataclass(frozen=True)
class Offer:
    """Offer of a rank to the meeting.

    Attributes:
        given: Job-wide variables that are set on this rank, parsed: JSON values by variable name.
        effective: Every job-wide variable's value on this rank, defaults included.
        transport: `RINGTUNE_TRANSPORT`; rank 0's holds.
        facts: Facts that this host declares about itself; JSON.
        lanes: Connections of a pair of ranks of different hosts that share long messages, beside the first.
        tuned_lanes: The same for a tuner that tries them; fewer where a rank has many peers.
        interfaces: Names of the interfaces that may carry data; empty for all.
        failure: Reason why this rank cannot start; the others raise it as well.
    """

    given: Mapping[str, Any]
    effective: Mapping[str, Any]
    transport: str = "auto"
    facts: Mapping[str, Any] = field(default_factory=dict)
    lanes: int = 0
    tuned_lanes: int = 0
    interfaces: tuple[str, ...] = ()
    failure: RingtuneError | None = None

    def lanes_of(self, layout: Layout) -> int:
        """Return the number of lanes that a pair of ranks gets in a layout."""
        most_peers = layout.world_size - min(layout.ranks_per_host)
        tuned = min(self.tuned_lanes, MAX_TUNED_SOCKETS // max(1, most_peers))
        return max(self.lanes, tuned if tuned > 1 else 0)


@dataclass(frozen=True)
class Agreement:
    """Result of a meeting, on every rank. The receiver owns the descriptors.

    Attributes:
        given: Rank 0's given variables, which hold for all.
        hosts: Each rank's host; numbered from 0 in the order of the hosts' first ranks.
        segment_fd: The shared-memory segment of this host.
        pidfds: One pidfd per rank; -1 for ranks of other hosts.
        pids: One process id per rank, each as its own host counts.
        control_fds: Sockets between rank 0 and the ranks of other hosts, one entry per rank, -1 for none; empty in a
            world of one host.
        data_fds: Sockets to all other ranks, as often as two ranks have connections, -1 for none; empty in a world of
            one host and where an MPI carries the data.
        tls: Sessions of those sockets that have TLS, by descriptor.
        interface: This host's address towards rank 0; loopback where the ranks met over a unix socket.
        host_facts: On rank 0, every machine's facts, with `link_bits_per_s`; empty elsewhere.
        notes: On rank 0, notes for the user, a sentence each.
    """

    given: Mapping[str, Any]
    hosts: tuple[int, ...]
    segment_fd: int
    pidfds: tuple[int, ...]
    pids: tuple[int, ...]
    control_fds: tuple[int, ...] = ()
    data_fds: tuple[int, ...] = ()
    tls: Mapping[int, "Session"] = field(default_factory=dict)
    interface: str = ""
    host_facts: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()

    def close(self) -> None:
        """Close the descriptors that no caller took over."""
        close_descriptors((self.segment_fd, *self.pidfds, *self.control_fds, *self.data_fds))


def close_descriptors(descriptors: Iterable[int]) -> None:
    """Close those that are descriptors; -1 stands for none."""
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)


def host_identity() -> str:
    """Return a text that two processes share exactly if they can share memory.

    That takes one booted host, process ids that both see, and one network namespace: to it belongs the abstract socket
    that the ranks of a host meet on.

    Raises:
        ConfigError: If `/proc` is not mounted.
    """
    return f"{_boot_id()}/{_namespace('pid')}/{_namespace('net')}"


def network_identity() -> str:
    """Return a text that two processes share exactly if they have the same network interfaces.

    Raises:
        ConfigError: If `/proc` is not mounted.
    """
    return f"{_boot_id()}/{_namespace('net')}"


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigError(f"/proc cannot be read ({error}); ringtune needs it to tell hosts apart") from error


def _namespace(kind: str) -> int:
    try:
        return Path(f"/proc/self/ns/{kind}").stat().st_ino
    except OSError as error:
        raise ConfigError(f"/proc cannot be read ({error}); ringtune needs it to tell hosts apart") from error
