# SPDX-License-Identifier: Apache-2.0
"""Connections, as far as the application knows them: it says which ones have sent a valid token."""

from typing import Protocol

from starlette.types import Scope

PEER_KEY = "ringtune.peer"
"""In the scope's `state`, where the server puts the connection."""


class ConnectionBounds(Protocol):
    """Bounds on connections."""

    @property
    def connections_max(self) -> int:
        """Return the maximum number of open connections."""
        ...


class CountedConnections(Protocol):
    """The open connections, as far as they are counted."""

    @property
    def limits(self) -> ConnectionBounds:
        """Their bounds."""
        ...

    @property
    def known(self) -> int:
        """Return the number of connections that have sent a valid token."""
        ...

    @property
    def strangers(self) -> int:
        """Return the number of connections that have not."""
        ...


class Peer(Protocol):
    """The connection that a request came on."""

    def recognise(self) -> bool:
        """Keep a place for this connection, for a request on it had a valid token; False if there is none left."""
        ...


def peer_of(scope: Scope) -> Peer | None:
    """Return the request's connection; None where the server has none to tell, as in tests."""
    peer: Peer | None = scope.get("state", {}).get(PEER_KEY)
    return peer
