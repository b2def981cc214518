# SPDX-License-Identifier: Apache-2.0
"""Layout of ranks on hosts: computed from the ranks' own facts, never from a launcher's word."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """The hosts of a world, as one rank sees them.

    Attributes:
        rank: This process.
        hosts: Each rank's host; numbered from 0 in the order of the hosts' first ranks.
    """

    rank: int
    hosts: tuple[int, ...]

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return len(self.hosts)

    @property
    def host(self) -> int:
        """This rank's host."""
        return self.hosts[self.rank]

    @property
    def host_count(self) -> int:
        """Number of hosts."""
        return max(self.hosts) + 1

    @property
    def local_ranks(self) -> tuple[int, ...]:
        """The ranks of this host, ascending."""
        return self.ranks_of(self.host)

    @property
    def local_rank(self) -> int:
        """This rank among those of its host."""
        return self.local_ranks.index(self.rank)

    @property
    def local_size(self) -> int:
        """Number of ranks on this host."""
        return len(self.local_ranks)

    @property
    def cross_rank(self) -> int:
        """This rank among those with its local rank, one of each host that has so many ranks (Horovod's meaning)."""
        return sum(count > self.local_rank for count in self.ranks_per_host[: self.host])

    @property
    def cross_size(self) -> int:
        """Number of ranks with this one's local rank."""
        return sum(count > self.local_rank for count in self.ranks_per_host)

    @property
    def ranks_per_host(self) -> tuple[int, ...]:
        """Number of ranks on each host."""
        return tuple(len(self.ranks_of(host)) for host in range(self.host_count))

    def ranks_of(self, host: int) -> tuple[int, ...]:
        """Return the ranks of a host, ascending."""
        return tuple(rank for rank, its_host in enumerate(self.hosts) if its_host == host)


def assign_hosts(identities: Sequence[str], transport: str, separated: Collection[int]) -> tuple[int, ...]:
    """Return each rank's host.

    Args:
        identities: Each rank's identity of its host; equal for ranks that can share memory.
        transport: `tcp` makes every rank a host of its own, so that it is used on one machine too; so does `mpi`, but
            only where all ranks are on one machine.
        separated: Ranks that are hosts of their own because they have no shared memory.
    """
    is_apart = transport == "tcp" or (transport == "mpi" and len(set(identities)) == 1)
    names = [f"{rank}" if is_apart or rank in separated else name for rank, name in enumerate(identities)]
    numbers: dict[str, int] = {}
    return tuple(numbers.setdefault(name, len(numbers)) for name in names)
