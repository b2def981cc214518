# SPDX-License-Identifier: Apache-2.0
"""What an asynchronous operation keeps alive until it is synchronized, and names for operations that have none."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pending:
    """An operation in flight.

    Attributes:
        buffers: What the engine reads and writes; must live until the handle is done.
        finish: Called once the engine is done; returns what `synchronize` returns.
    """

    buffers: tuple[Any, ...]
    finish: Callable[[], Any]


class HandleTable:
    """The operations of one rank that nobody has synchronized yet. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards both; gradient hooks run in other threads
        self._pending: dict[int, Pending] = {}
        self._name_counts: Counter[str] = Counter()

    def add(self, handle: int, pending: Pending) -> None:
        """Keep an operation's buffers alive."""
        with self._lock:
            self._pending[handle] = pending

    def get(self, handle: int) -> Pending | None:
        """Return an operation; None when the handle is unknown or was forgotten."""
        with self._lock:
            return self._pending.get(handle)

    def forget(self, handle: int) -> None:
        """Let go of an operation's buffers, once the engine no longer touches them."""
        with self._lock:
            self._pending.pop(handle, None)

    def __len__(self) -> int:
        """Return how many operations are in flight."""
        with self._lock:
            return len(self._pending)

    def clear(self) -> None:
        """Forget every operation, once the engine no longer touches their buffers."""
        with self._lock:
            self._pending.clear()

    def name_for(self, operation: str, name: str | None) -> str:
        """Return `name` under its operation, or the next automatic name, equal on ranks that call in one order."""
        if name is not None:
            return f"{operation}.{name}"
        with self._lock:
            self._name_counts[operation] += 1
            return f"{operation}.noname.{self._name_counts[operation]}"
