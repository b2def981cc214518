# SPDX-License-Identifier: Apache-2.0
"""The places of clients that follow the events: bounded, for each keeps a connection and asks the database."""

from collections.abc import Iterator
from contextlib import contextmanager

from ringtune.service.errors import Overloaded


class Listeners:
    """Counts the listeners; used from the event loop alone."""

    def __init__(self, places: int) -> None:
        """Allow so many at a time."""
        self._places = places
        self.count = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place.

        Raises:
            Overloaded: If all are taken.
        """
        if self.count >= self._places:
            raise Overloaded(f"{self._places} clients listen already; try again later", retry_after_s=30.0)
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
