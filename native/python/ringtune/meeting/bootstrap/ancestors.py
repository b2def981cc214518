# SPDX-License-Identifier: Apache-2.0
"""The processes that this one descends from, as `/proc` shows them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAX_GENERATIONS = 256  # bound of a walk, should process ids change hands meanwhile


@dataclass(frozen=True)
class Ancestor:
    """A process above this one.

    Attributes:
        pid: Its process id.
        name: Its program's name, which the kernel cuts to 15 characters.
        start_ticks: When it started, in the kernel's ticks since boot: with the process id unique on a booted host.
    """

    pid: int
    name: str
    start_ticks: int


def ancestors() -> Iterator[Ancestor]:
    """Yield the parent, its parent and so on, as far as they can be seen."""
    pid = os.getppid()
    for _ in range(_MAX_GENERATIONS):
        try:
            text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
            head, _, tail = text.rpartition(")")
            fields = tail.split()
            ancestor = Ancestor(pid, head.partition("(")[2], int(fields[19]))
            pid = int(fields[1])
        except (OSError, ValueError, IndexError):
            return
        yield ancestor
