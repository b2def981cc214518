# SPDX-License-Identifier: Apache-2.0
"""The tensor set: which gradients a step submits, by dtype and shape, as the fingerprint of the model needs it."""

import threading
from collections import Counter

Signature = tuple[str, tuple[int, ...]]


class GradientSet:
    """What gradients were seen, each name once. Written by gradient hooks, read by the tuning thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _by_name
        self._by_name: dict[str, Signature] = {}

    def add(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Note a gradient; a name seen before with another shape is replaced."""
        signature = (dtype.removeprefix("torch."), shape)
        with self._lock:
            self._by_name[name] = signature

    def counts(self) -> Counter[Signature]:
        """Return how many gradients there are of each (dtype, shape)."""
        with self._lock:
            return Counter(self._by_name.values())
