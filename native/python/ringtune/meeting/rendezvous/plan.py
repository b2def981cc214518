# SPDX-License-Identifier: Apache-2.0
"""Decision of rank 0 once all ranks have joined, as it travels to each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ringtune.errors import ConfigError

from .address import Address
from .channel import Message
from .layout import Layout


@dataclass(frozen=True)
class MeetingPlan:
    """Rank 0's decision, as one rank gets it.

    Attributes:
        round: Number of plans before it; ranks without shared memory make a second one necessary.
        given: Rank 0's given variables, which hold for all.
        layout: Hosts of the ranks.
        pids: One process id per rank, each as its own host counts.
        group: The abstract socket of this host's ranks.
        data_connections: Number of data sockets between two ranks of different hosts; 0 if an MPI carries the data.
        interfaces: Names of the interfaces that may carry data; empty for all.
    """

    round: int
    given: Mapping[str, Any]
    layout: Layout
    pids: tuple[int, ...]
    group: Address
    data_connections: int
    interfaces: tuple[str, ...]

    def to_message(self) -> Message:
        """Return the plan as a message."""
        return {
            "type": "plan",
            "round": self.round,
            "given": dict(self.given),
            "hosts": list(self.layout.hosts),
            "pids": list(self.pids),
            "group": str(self.group),
            "data_connections": self.data_connections,
            "interfaces": list(self.interfaces),
        }

    @classmethod
    def from_message(cls, message: Message, rank: int) -> "MeetingPlan":
        """Return the plan in a message.

        Args:
            message: Message of an authenticated rank 0, but perhaps of another version.
            rank: This process.

        Raises:
            ConfigError: If the message does not hold a plan.
        """
        try:
            return cls(
                round=int(message["round"]),
                given=dict(message["given"]),
                layout=Layout(rank, tuple(int(host) for host in message["hosts"])),
                pids=tuple(int(pid) for pid in message["pids"]),
                group=Address.parse(message["group"]),
                data_connections=int(message["data_connections"]),
                interfaces=tuple(str(name) for name in message["interfaces"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise malformed("plan", error) from error


def mesh_message(addresses: Sequence[Sequence[Address]]) -> Message:
    """Return where each rank listens for the others; nowhere in a world of one host."""
    return {"type": "mesh", "addresses": [[str(address) for address in of_rank] for of_rank in addresses]}


def mesh_addresses(message: Message) -> list[list[Address]]:
    """Return the addresses in a message, those of each rank; ConfigError where it does not hold them."""
    try:
        return [[Address.parse(text) for text in of_rank] for of_rank in message["addresses"]]
    except (KeyError, TypeError, ValueError) as error:
        raise malformed(message["type"], error) from error


def malformed(what: str, error: Exception) -> ConfigError:
    """Return the error of a message that only another version can have sent."""
    return ConfigError(f"rank 0 sent a malformed {what} ({error!r}); install one version of ringtune for all ranks")
