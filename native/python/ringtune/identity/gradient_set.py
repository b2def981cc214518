# SPDX-License-Identifier: Apache-2.0
"""The tensor set: which gradients a step submits, by dtype and shape, as the fingerprint of the model needs it."""

import threading
from collections import Counter
from collections.abc import Iterable

Signature = tuple[str, tuple[int, ...]]


class GradientSet:
    """Gradients seen so far, each name once. Written by gradient hooks, read by the tuning thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _by_name
        self._by_name: dict[str, Signature] = {}
        self._gpus: dict[str, int] = {}  # of those gradients that are on one; guarded likewise
        self._gpu: int | None = None  # the first of them, asked for in every step
        self._bucket_bytes: dict[str, tuple[int, ...]] = {}  # replaced whole, needs no lock

    def add(self, name: str, dtype: str, shape: tuple[int, ...], *, gpu: int | None = None) -> None:
        """Note a gradient; a name seen before with another shape or place is replaced.

        Args:
            name: Key that matches the tensor across ranks.
            dtype: Element type, as PyTorch or numpy writes it.
            shape: Its shape.
            gpu: The GPU that it is on, None for CPU memory.
        """
        signature = (dtype.removeprefix("torch."), shape)
        with self._lock:
            self._by_name[name] = signature
            if self._gpus.get(name) != gpu:
                self._place(name, gpu)

    def discard(self, names: Iterable[str]) -> None:
        """Forget gradients that no step submits any more."""
        with self._lock:
            for name in names:
                self._by_name.pop(name, None)
                if name in self._gpus:
                    self._place(name, None)

    def _place(self, name: str, gpu: int | None) -> None:
        """Note where a gradient is; the caller has the lock."""
        if gpu is None:
            del self._gpus[name]
        else:
            self._gpus[name] = gpu
        self._gpu = min(set(self._gpus.values()), default=None)

    def note_buckets(self, name: str, sizes: tuple[int, ...]) -> None:
        """Note that a model's gradients come in buckets of DDP's, in bytes, in their order; the last call holds."""
        if self._bucket_bytes.get(name) != sizes:
            self._bucket_bytes = {**self._bucket_bytes, name: sizes}

    @property
    def bucket_bytes(self) -> tuple[int, ...]:
        """Bytes of the buckets of a step, under the DDP hook; empty where gradients come one by one."""
        return tuple(size for sizes in self._bucket_bytes.values() for size in sizes)

    @property
    def gpu(self) -> int | None:
        """The first GPU that a gradient is on; None where all are in CPU memory.

        A study of gradients on GPUs is keyed by those GPUs, and a step ends when the GPU has finished it.
        """
        return self._gpu

    def counts(self) -> Counter[Signature]:
        """Return how many gradients there are of each (dtype, shape)."""
        with self._lock:
            return Counter(self._by_name.values())
