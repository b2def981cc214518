# SPDX-License-Identifier: Apache-2.0
"""Handlers: how a state saves, restores and sends one of its values, by the kind of the value."""

import copy
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from ringtune.errors import ConfigError
from ringtune.system.numpy_leaves import numpy_leaf
from ringtune.system.plain_data import encode

LARGEST_COUNT = 2**53  # a larger integer is a seed or a hash, and no message has room for it


class StateHandler:
    """Saves one value, and holds the copy. The value itself is the state's attribute."""

    def save(self, value: Any) -> None:
        """Keep a copy of the value's state."""
        raise NotImplementedError

    def restore(self, value: Any) -> Any:
        """Return the value as it was saved; an object is brought back to that in place."""
        raise NotImplementedError

    def live(self, value: Any) -> Any:
        """Return the value's state as plain data, without a copy of its arrays."""
        raise NotImplementedError

    def load(self, value: Any, state: Any) -> Any:
        """Return the value with the state of another rank; an object is changed in place."""
        raise NotImplementedError

    def synced(self, value: Any, name: str, *, is_current: bool) -> None:
        """Finish a synchronization; called on every rank.

        Args:
            value: The value, already the same on all ranks.
            name: Key that matches collectives of this value across ranks.
            is_current: Whether this rank had the newest state itself.
        """

    def counters(self, name: str, value: Any) -> Mapping[str, int]:
        """Return integers of the value that measure the training's progress, by name.

        Args:
            name: Name of the value.
            value: The value.
        """
        del name, value
        return {}

    def words(self, value: Any) -> Sequence[int]:
        """Return integers of this rank that all ranks are to know at a commit; as many each time."""
        del value
        return ()

    def heed(self, value: Any, words: Sequence[Sequence[int]], name: str) -> None:
        """Take the words of all ranks, in rank order; called on every rank."""


class ValueHandler(StateHandler):
    """Handler of a plain value, which is replaced as a whole."""

    def __init__(self, name: str, value: Any) -> None:
        """Check that the value can travel.

        Raises:
            ConfigError: If it cannot.
        """
        self._saved: Any = None
        try:
            self.check(value)
        except ConfigError as error:
            raise ConfigError(f"the value {name!r} of the state is not possible: {error}") from None

    def check(self, value: Any) -> None:
        """Raise `ConfigError` if the value is no plain data."""
        encode(value, numpy_leaf)

    def save(self, value: Any) -> None:
        """See `StateHandler`."""
        self._saved = copy.deepcopy(value)

    def restore(self, value: Any) -> Any:
        """See `StateHandler`."""
        del value
        return copy.deepcopy(self._saved)

    def live(self, value: Any) -> Any:
        """See `StateHandler`."""
        return value

    def counters(self, name: str, value: Any) -> Mapping[str, int]:
        """See `StateHandler`."""
        if isinstance(value, Mapping):
            found: dict[str, int] = {}
            for key, inner in value.items():
                found.update(self.counters(f"{name}.{key}", inner))
            return found
        try:
            count = operator.index(value)
            return {name: count} if abs(count) <= LARGEST_COUNT else {}
        except (TypeError, ValueError, RuntimeError):  # no integer, several, or one on a device that has failed
            return {}

    def load(self, value: Any, state: Any) -> Any:
        """See `StateHandler`."""
        del value
        return state
