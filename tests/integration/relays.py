# SPDX-License-Identifier: Apache-2.0
"""A relay before a connection between ranks: changes bytes that pass, and looks for a text in them."""

import random
import socket
import threading


class Relay:
    """Two sockets between two ends.

    Attributes:
        seen: Number of times that the text has passed in one piece.
    """

    def __init__(self, seed: int = 0, changes: int = 0, *, within_bytes: int = 1, text: bytes = b"") -> None:
        """Make the relay.

        Args:
            seed: Seed of the choice of the bytes that are changed.
            changes: Largest number of changed bytes in each direction.
            within_bytes: Number of a direction's first bytes among which the changed ones lie.
            text: Text to look for; empty for none.
        """
        self.seen = 0
        self._text = text
        dice = random.Random(seed)
        self._masks = [
            {dice.randrange(within_bytes): 1 << dice.randrange(8) for _ in range(dice.randrange(changes + 1))}
            for _ in range(2)
        ]

    def between(self, other_end: int) -> int:
        """Put the relay before a connection; returns the descriptor to use in its place."""
        outer = socket.socket(fileno=other_end)
        outer.setblocking(True)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            own = socket.create_connection(listener.getsockname())
            inner, _ = listener.accept()
        for number, (source, target) in enumerate(((inner, outer), (outer, inner))):
            arguments = (source, target, self._masks[number])
            threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()
        own.setblocking(False)
        return own.detach()

    def _pass_on(self, source: socket.socket, target: socket.socket, masks: dict[int, int]) -> None:
        passed = 0
        try:
            while data := bytearray(source.recv(1 << 16)):
                for place, mask in masks.items():
                    if passed <= place < passed + len(data):
                        data[place - passed] ^= mask
                passed += len(data)
                self.seen += bool(self._text) and data.count(self._text)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return
