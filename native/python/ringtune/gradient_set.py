# SPDX-License-Identifier: Apache-2.0
"""The tensor set: which gradients a step submits, by dtype and shape, as the fingerprint of the model needs it."""

import threading
from collections import Counter
from collections.abc import Iterable

Signature = tuple[str, tuple[int, ...]]


class GradientSet:
    """What gradients were seen, each name once. Written by gradient hooks, read by the tuning thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _by_name
        self._by_name: dict[str, Signature] = {}
        self._on_gpus: set[str] = set()  # names, guarded likewise
        self._bucket_bytes: dict[str, tuple[int, ...]] = {}  # replaced whole, needs no lock

    def add(self, name: str, dtype: str, shape: tuple[int, ...], *, is_on_gpu: bool = False) -> None:
        """Note a gradient; a name seen before with another shape or place is replaced."""
        signature = (dtype.removeprefix("torch."), shape)
        with self._lock:
            self._by_name[name] = signature
            (self._on_gpus.add if is_on_gpu else self._on_gpus.discard)(name)

    def discard(self, names: Iterable[str]) -> None:
        """Forget gradients that no step submits any more."""
        with self._lock:
            for name in names:
                self._by_name.pop(name, None)
                self._on_gpus.discard(name)

    def note_buckets(self, name: str, sizes: tuple[int, ...]) -> None:
        """Note that a model's gradients come in buckets of DDP's, in bytes, in their order; the last call holds."""
        if self._bucket_bytes.get(name) != sizes:
            self._bucket_bytes = {**self._bucket_bytes, name: sizes}

    @property
    def bucket_bytes(self) -> tuple[int, ...]:
        """Bytes of the buckets of a step, under the DDP hook; empty where gradients come one by one."""
        return tuple(size for sizes in self._bucket_bytes.values() for size in sizes)

    @property
    def is_on_gpus(self) -> bool:
        """Whether any gradient is on a GPU: what is learned then is learned about the GPUs too."""
        with self._lock:
            return bool(self._on_gpus)

    def counts(self) -> Counter[Signature]:
        """Return how many gradients there are of each (dtype, shape)."""
        with self._lock:
            return Counter(self._by_name.values())
