# SPDX-License-Identifier: Apache-2.0
"""Clients that vanish without a word keep no connection of the service."""

import socket

from ringtune.service import serving


def test_accepted_connections_ask_for_signs_of_life() -> None:
    """The kernel asks a silent peer's machine, and ends the connection, and its unsent bytes, when none answers."""
    with (
        serving._listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        probes = [
            accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
            accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
        ]

    assert [1, serving.PROBED_AFTER_S, serving.PROBED_EVERY_S, 1000 * serving.VANISHED_AFTER_S] == probes
