# SPDX-License-Identifier: Apache-2.0
"""Numbers and names of a group's calls: equal ones share names, which the engine knows again.

Torch's calls have no names. The n-th call of one text meets the n-th on the other ranks. The compiled form has a book
of the same kind, in `call_book.h`, for its own calls and those of Python's form.
"""

import threading
from itertools import islice

NAMES = 8  # names of one text: so many equal calls are in flight; the next one waits for the first of them


class CallText:
    """The names of equal calls, in turn."""

    __slots__ = ("names", "next", "numbers")

    def __init__(self, text: str, era: int) -> None:
        """Make the names.

        Args:
            text: Text of the calls, as ranks compare it.
            era: Number of the last call that differed between ranks; its name may be in flight for ever.
        """
        self.names = [f"{text} #{era}.{slot}" for slot in range(NAMES)]
        self.numbers = [0] * NAMES
        self.next = 0


class CallBook:
    """The calls of one group. Whoever uses it enters it, as a context manager, which guards all of it."""

    def __init__(self) -> None:
        """Begin without a call."""
        self._lock = threading.Lock()
        self._texts: dict[str, CallText] = {}
        self._open: dict[int, str] = {}
        self._era = 0
        self.number = 0
        self.is_closed = False

    def __enter__(self) -> None:
        """Wait for the other threads."""
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        """Let the other threads in."""
        self._lock.release()

    def holder(self, text: str) -> int:
        """Return the number of the call under way that has the next name of a text; 0 where that is free."""
        names = self._names_of(text)
        number = names.numbers[names.next]
        return number if number in self._open else 0

    def next_name(self, text: str) -> str:
        """Return the name of the next call of a text."""
        names = self._names_of(text)
        return names.names[names.next]

    def begin(self, text: str) -> int:
        """Give the next name of a text to a call, and return the call's number."""
        names = self._names_of(text)
        self.number += 1
        names.numbers[names.next] = self.number
        names.next = (names.next + 1) % NAMES
        self._open[self.number] = text
        return self.number

    def end(self, number: int) -> None:
        """Take note that the end of a call was seen."""
        self._open.pop(number, None)

    def open(self, most: int) -> dict[int, str]:
        """Return the oldest calls whose end no caller has seen: texts by number."""
        return dict(islice(self._open.items(), most))

    def differ(self, number: int) -> None:
        """Take note that a call differs between ranks: names that may be in flight for ever are not used again."""
        self._era = number
        self._texts.clear()

    def close(self) -> None:
        """Take note that the group is left."""
        self.is_closed = True

    def finish(self, number: int) -> None:
        """Wait for a call of the compiled form; here there is none."""

    def _names_of(self, text: str) -> CallText:
        names = self._texts.get(text)
        if names is None:
            names = self._texts[text] = CallText(text, self._era)
        return names
