# SPDX-License-Identifier: Apache-2.0
"""Address at which metrics are served: `RINGTUNE_METRICS_PORT`, read and shown.

Loopback unless an address is given: metrics have no token, so that opening them to others is for the user to ask.
"""

import ipaddress
import re
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
MAX_PORT = 65_535
_PORT_ALONE = re.compile(r"[0-9]{1,5}")
_WITH_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<ipv4>[0-9.]+)):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class ListenAddress:
    """An address of this host, or one that means all of them, and a port.

    Attributes:
        host: An IP address.
        port: Port of local rank 0; each further rank of the host has the next one.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        """Return the address in `9400`, `0.0.0.0:9400` or `[::]:9400`; ValueError when there is none."""
        match = _WITH_ADDRESS.fullmatch(text.strip())
        if match is None:
            if not _PORT_ALONE.fullmatch(text.strip()):
                raise ValueError(text)
            return cls(LOOPBACK, _checked_port(text))
        if match["ipv6"] is not None:
            return cls(str(ipaddress.IPv6Address(match["ipv6"])), _checked_port(match["port"]))
        return cls(str(ipaddress.IPv4Address(match["ipv4"])), _checked_port(match["port"]))

    def of_local_rank(self, local_rank: int) -> "ListenAddress":
        """Return where a rank of the host serves; its port may be one that does not exist."""
        return ListenAddress(self.host, self.port + local_rank)

    def __str__(self) -> str:
        """Return it as it stands in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ListenAddressReader:
    """Reads a `ListenAddress`; its value is the text, address included, for settings hold JSON."""

    allowed: str = (
        f"a port from 1 to {MAX_PORT}, or with an IP address before it, such as 0.0.0.0:9400 or [::]:9400 (all "
        "interfaces)"
    )

    def parse(self, text: str) -> str:
        """Return the address as text; ValueError when it is none."""
        return str(ListenAddress.parse(text))


def _checked_port(text: str) -> int:
    if not 1 <= int(text) <= MAX_PORT:
        raise ValueError(text)
    return int(text)
