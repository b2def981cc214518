# SPDX-License-Identifier: Apache-2.0
"""Host discovery as the launcher has it: a process that looks, a time limit, and one warning for each kind of fault."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ringtune.errors import ConfigError
from ringtune.launch.hosts import HostSlots
from ringtune.system.child_process import NULL, PIPE, Child
from ringtune.system.event_loop import EventLoop

from . import finder
from .answers import Answer, AnswerFault, FoundHost, failed

LOOK_INTERVAL_S = 1.0
LOOK_LIMIT_S = 30.0  # time limit of one look
RELATIVE_PAUSE = (
    4.0  # pauses between looks are at least so many times as long as a look: discovery takes a fifth of a core
)
REPEAT_S = 600.0  # a fault that lasts is reported again after so long
NEVER_S = float("inf")
_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class DiscoverySource:
    """Program that names the hosts of a job.

    Attributes:
        kind: `finder.SCRIPT` or `finder.FUNCTION`.
        source: Command line of the script, or `MODULE:FUNCTION`.
        slots: Slots of a host for which it names none.
        origin: Option that named it, for messages.
    """

    kind: str
    source: str
    slots: int
    origin: str


class Discovery(Protocol):
    """Gives answers from within the loop."""

    def look_if_due(self) -> float:
        """Begin a look if one is due, and give one up that takes too long; return the seconds until the next call."""

    def close(self) -> None:
        """End for ever; idempotent."""


class FixedDiscovery:
    """Hosts that were named once and for all."""

    def __init__(self, hosts: tuple[FoundHost, ...], take: Callable[[Answer], None]) -> None:
        """Make the discovery.

        Args:
            hosts: The hosts.
            take: Gets the answer, once.
        """
        self._hosts = hosts
        self._take: Callable[[Answer], None] | None = take

    def look_if_due(self) -> float:
        """Give the answer at the first call."""
        take, self._take = self._take, None
        if take is not None:
            take(Answer(self._hosts))
        return NEVER_S

    def close(self) -> None:
        """Ignore it: a fixed list of hosts holds no process."""


class FindingProcess:
    """Asks the finder for one look after the other; see `finder`."""

    def __init__(
        self, loop: EventLoop, source: DiscoverySource, environ: Mapping[str, str], take: Callable[[Answer], None]
    ) -> None:
        """Make the discovery; the first look begins with the first call of `look_if_due`.

        Args:
            loop: Watches the process.
            source: The script or function.
            environ: Its environment.
            take: Gets each answer.
        """
        self._loop = loop
        self._source = source
        self._environ = environ
        self._take = take
        self._process: Child | None = None
        self._pending = bytearray()
        self._asked_s: float | None = None  # when the look in progress began
        self._next_s = time.monotonic()

    def look_if_due(self) -> float:
        """See `Discovery`."""
        now_s = time.monotonic()
        if self._asked_s is not None and now_s - self._asked_s > LOOK_LIMIT_S:
            self._end_process()
            self._conclude(failed("limit", f"it took longer than {LOOK_LIMIT_S:g} s and was ended"))
        elif self._asked_s is None and now_s >= self._next_s:
            self._ask()
        return max(0.0, (self._next_s if self._asked_s is None else self._asked_s + LOOK_LIMIT_S) - now_s)

    def close(self) -> None:
        """Kill the process and all that it has started."""
        self._end_process()
        self._asked_s, self._next_s = None, NEVER_S

    def _ask(self) -> None:
        self._asked_s = time.monotonic()
        try:
            if self._process is None:
                self._process = self._start()
            self._process.write(b"\n")
        except OSError as error:  # no more processes, or it has ended in this moment
            self._end_process()
            self._conclude(failed("start", f"it cannot be started ({error})"))

    def _start(self) -> Child:
        safe = ["-P"] if self._source.kind == finder.SCRIPT and sys.version_info >= (3, 11) else []
        module = [*safe, "-m", finder.__name__]
        command = [sys.executable, *module, self._source.kind, self._source.source, str(self._source.slots)]
        process = Child(command, self._environ, stdin=PIPE, stderr=NULL)
        self._pending.clear()
        self._loop.on_readable(process.stdout, self._read)
        return process

    def _read(self) -> None:
        assert self._process is not None
        data = os.read(self._process.stdout, _READ_BYTES)
        self._pending += data
        line, end, rest = self._pending.partition(b"\n")
        if end:
            self._pending = rest
            self._conclude(_decoded(bytes(line)))
        if not data:
            self._end_process()
            if self._asked_s is not None:
                self._conclude(failed("lost", "the process that runs it was killed"))

    def _conclude(self, answer: Answer) -> None:
        """Pass an answer on, and set the time of the next look."""
        now_s = time.monotonic()
        took_s = 0.0 if self._asked_s is None else now_s - self._asked_s
        self._asked_s = None
        self._next_s = now_s + max(LOOK_INTERVAL_S, min(RELATIVE_PAUSE * took_s, LOOK_LIMIT_S))
        self._take(answer)

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._loop.forget(process.stdout)
            process.end(0)


def find_once(source: DiscoverySource, environ: Mapping[str, str]) -> tuple[HostSlots, ...]:
    """Return the hosts that a discovery program names now.

    Args:
        source: The program.
        environ: Its environment.

    Raises:
        ConfigError: If it fails, takes too long, or names no host.
    """
    loop, answers = EventLoop(takes_files=True), list[Answer]()
    process = FindingProcess(loop, source, environ, answers.append)
    try:
        while not answers:
            loop.turn(process.look_if_due())
    finally:
        process.close()
        loop.close()
    faults = [problem.text for problem in answers[0].problems if problem.hides_hosts]
    hosts = tuple(HostSlots(host.name, host.slots) for host in answers[0].hosts if host.slots)
    if faults or not hosts:
        raise ConfigError(f"{source.origin} {source.source}: {'; '.join(faults) or 'no host has a slot'}")
    return hosts


class Faults:
    """Reports the faults of answers: each kind when it begins, then at long intervals as long as it comes back."""

    def __init__(self) -> None:
        self._reported_s: dict[str, float] = {}

    def new(self, answer: Answer, now_s: float) -> list[AnswerFault]:
        """Return the problems of an answer that are to be reported now."""
        fresh = [p for p in answer.problems if now_s - self._reported_s.get(p.kind, -NEVER_S) >= REPEAT_S]
        self._reported_s.update({problem.kind: now_s for problem in fresh})
        return fresh


def _decoded(line: bytes) -> Answer:
    fields = json.loads(line)
    hosts = tuple(FoundHost(**host) for host in fields["hosts"])
    return Answer(hosts, tuple(AnswerFault(**problem) for problem in fields["problems"]))


def check_function(name: str) -> None:
    """Raise `ConfigError` for a text that is not `MODULE:FUNCTION`."""
    module, colon, function = name.partition(":")
    words = [*module.split("."), *function.split(".")]
    if not colon or not all(word.isidentifier() for word in words):
        raise ConfigError(f"--hosts-from {name} names no function; write --hosts-from MODULE:FUNCTION")
