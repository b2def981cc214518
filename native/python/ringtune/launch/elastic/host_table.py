# SPDX-License-Identifier: Apache-2.0
"""Table of the hosts that discovery has named: their slots, their failures, and when they get workers again. Pure.

A host whose workers fail is *cooling*: it gets no new worker for a pause that doubles with each failure. Workers that
run there go on. A host that discovery removes is not blamed for the end of its workers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ringtune.launch.hosts import host_identity
from ringtune.system.counts import counted

from .answers import Answer, FoundHost

LOOKS_UNTIL_REMOVAL = 2  # successive answers without a host, or with fewer slots: a file may be read half written
NEVER_S = float("inf")


@dataclass(frozen=True)
class Cooldown:
    """Range of the pause after a host's failures, in seconds.

    Attributes:
        shortest_s: Pause after the first failure; it doubles with each further one.
        longest_s: Longest pause. A host that has run for so long without a failure begins anew.
    """

    shortest_s: float = 5.0
    longest_s: float = 300.0

    def pause_s(self, failures: int) -> float:
        """Return the pause after a number of failures, from 1."""
        doublings = min(failures - 1, 60)  # more would overflow, and be the longest pause anyway
        return min(self.longest_s, max(self.shortest_s * 2.0**doublings, self.shortest_s))


@dataclass
class HostRow:
    """One host.

    Attributes:
        host: The host as discovery named it, with the slots that hold.
        looks_without: Successive answers in which it was missing, or had fewer slots.
        failures: Number of failures that count for the next pause.
        cooling_until_s: Time until which it gets no new worker.
    """

    host: FoundHost
    looks_without: int = 0
    failures: int = 0
    cooling_until_s: float = -NEVER_S

    @property
    def name(self) -> str:
        """The host's name."""
        return self.host.name


class HostTable:
    """All hosts, in the order in which they first appeared. Times are seconds on one clock."""

    def __init__(self, cooldown: Cooldown) -> None:
        self._cooldown = cooldown
        self._rows: dict[str, HostRow] = {}
        self._past: dict[str, HostRow] = {}  # removed ones: a host that comes back has the failures that it had

    def __iter__(self) -> Iterator[HostRow]:
        return iter(list(self._rows.values()))

    def note(self, answer: Answer) -> None:
        """Take an answer: hosts and slots are added at once, and removed after `LOOKS_UNTIL_REMOVAL` answers."""
        named = {self._known_name(host): host for host in answer.hosts}
        named = {name: replace(host, name=name) for name, host in named.items()}
        for name, host in named.items():
            row = self._rows.get(name)
            if row is None:
                row = self._rows[name] = self._past.pop(name, HostRow(host))
                row.host, row.looks_without = host, 0
            elif host.slots >= row.host.slots:
                row.host, row.looks_without = host, 0
            else:
                self._note_missing(row, host)
        if answer.is_whole:
            for row in self:
                if row.name not in named:
                    self._note_missing(row, None)

    def _known_name(self, host: FoundHost) -> str:
        """Return the name by which a host is known: it may come up under another one of its names."""
        for row in (*self._rows.values(), *self._past.values()):
            is_here = row.host.is_here and host.is_here
            if is_here or host_identity(row.name) == host_identity(host.name):
                return row.name
        return host.name

    def slots_of(self, name: str) -> int:
        """Return how many workers a host takes; 0 for one that was removed."""
        row = self._rows.get(name)
        return 0 if row is None else row.host.slots

    def blame(self, names: Iterable[str], now_s: float) -> dict[str, float]:
        """Take note that workers of some hosts have failed.

        Args:
            names: The hosts, once for each worker. A host that is cooling is not blamed again.
            now_s: The time.

        Returns:
            The pause of each host that was blamed, in seconds.
        """
        pauses = {}
        for name in set(names):
            row = self._rows.get(name)
            if row is None or now_s < row.cooling_until_s:
                continue
            if now_s - row.cooling_until_s > self._cooldown.longest_s:
                row.failures = 0
            row.failures += 1
            pauses[name] = self._cooldown.pause_s(row.failures)
            row.cooling_until_s = now_s + pauses[name]
        return pauses

    def available(self, now_s: float) -> list[FoundHost]:
        """Return the hosts that may get a new worker."""
        return [row.host for row in self if now_s >= row.cooling_until_s and row.host.slots > 0]

    def next_change_s(self, now_s: float) -> float:
        """Return when the next host has cooled down; infinity if none cools."""
        return min((row.cooling_until_s for row in self if row.cooling_until_s > now_s), default=NEVER_S)

    def describe(self, now_s: float) -> str:
        """Return the hosts, their slots and their pauses in words."""
        return ", ".join(_described(row, now_s) for row in self) or "no host"

    def _note_missing(self, row: HostRow, host: FoundHost | None) -> None:
        row.looks_without += 1
        if row.looks_without < LOOKS_UNTIL_REMOVAL:
            return
        if host is None:
            self._past[row.name] = self._rows.pop(row.name)
        else:
            row.host, row.looks_without = host, 0


def _described(row: HostRow, now_s: float) -> str:
    text = f"{row.name} with {counted(row.host.slots, 'slot')}"
    left_s = row.cooling_until_s - now_s
    times = "a failure" if row.failures == 1 else f"{row.failures} failures"
    return text if left_s <= 0 else f"{text} (no new worker for {left_s:.0f} s after {times})"
