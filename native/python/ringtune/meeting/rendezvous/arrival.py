# SPDX-License-Identifier: Apache-2.0
"""Arrival of a rank by rank 0's plan: take its seat on its host, and connect to the others."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .address import Address
from .host_group import HostGroup, Seat, take_seat
from .mesh import Mesh
from .place import Agreement
from .plan import MeetingPlan
from .proof import Membership
from .waiting import Waiting


class Arrival:
    """One rank's way from a plan into the world: `sit()`, `connect()`, `agreement()`; `close()` in any case."""

    def __init__(self, plan: MeetingPlan, membership: Membership, interface: str, waiting: Waiting) -> None:
        """Listen for the other ranks that will need this one; errors as for `HostGroup` and `Mesh`."""
        self._plan = plan
        self._membership = membership
        self._interface = interface
        self._waiting = waiting
        self._group: HostGroup | None = None
        self._mesh: Mesh | None = None
        self._seat: Seat | None = None
        layout = plan.layout
        try:
            if layout.local_rank == 0:
                self._group = HostGroup(layout, membership, plan.group, waiting)
            if layout.host_count > 1:
                self._mesh = Mesh(plan, membership, interface, waiting)
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> list[Address]:
        """Addresses at which other hosts' ranks connect to this one, the meeting's way first; none on one host."""
        return [] if self._mesh is None else self._mesh.addresses

    def sit(self, create_segment: Callable[[int], int]) -> None:
        """Get this rank's share of its host's memory; errors as for `HostGroup.hand_out`."""
        if self._group is not None:
            self._seat = self._group.hand_out(create_segment)
            self._group.close()
        else:
            self._seat = take_seat(self._plan.layout, self._membership, self._plan.group, self._waiting)

    def connect(self, addresses: Sequence[Sequence[Address]]) -> None:
        """Connect to the other ranks; errors as for `Mesh.connect`."""
        if self._mesh is not None:
            self._mesh.connect(addresses)

    def agreement(self, host_facts: tuple[Mapping[str, Any], ...] = (), notes: tuple[str, ...] = ()) -> Agreement:
        """Hand everything to the caller, once `sit` and `connect` are through."""
        if self._seat is None:
            raise RuntimeError("agreement() before sit()")
        seat, self._seat = self._seat, None
        layout = self._plan.layout
        local = dict(zip(layout.local_ranks, zip(seat.pidfds, seat.pids, strict=True), strict=True))
        control_fds, data_fds = ((), ()) if self._mesh is None else self._mesh.take_sockets()
        return Agreement(
            given=self._plan.given,
            hosts=layout.hosts,
            segment_fd=seat.segment_fd,
            pidfds=tuple(local.get(rank, (-1, 0))[0] for rank in range(layout.world_size)),
            pids=tuple(local.get(rank, (-1, pid))[1] for rank, pid in enumerate(self._plan.pids)),
            control_fds=control_fds,
            data_fds=data_fds,
            tls={} if self._mesh is None else self._mesh.take_tls(),
            interface=self._interface,
            host_facts=host_facts,
            notes=notes,
        )

    def close(self) -> None:
        """Close everything that was not handed out; idempotent."""
        for part in (self._group, self._mesh, self._seat):
            if part is not None:
                part.close()
        self._seat = None
