# SPDX-License-Identifier: Apache-2.0
"""Answers of host discovery: hosts with their slots, and the faults of the text that named them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ringtune.errors import ConfigError
from ringtune.launch.hosts import MAX_SLOTS, HostSlots, host_identity, hosts_text, parse_host_line

MAX_HOSTS = 1000  # in one answer
MISSING = "missing"  # kind of fault: the script or the function is not there, so that another look finds no more
MAX_SHOWN_CHARACTERS = 200  # limit of a fault's text


@dataclass(frozen=True)
class FoundHost:
    """A host that discovery named.

    Attributes:
        name: Name or address, without brackets; may begin with `user@`.
        slots: Number of workers that it takes, from 0.
        is_here: Whether it is the launcher's own machine.
    """

    name: str
    slots: int
    is_here: bool = False


@dataclass(frozen=True)
class AnswerFault:
    """A fault of an answer.

    Attributes:
        kind: Word for the kind of fault; a kind is reported once in a while, not at each look.
        text: Description for people.
        hides_hosts: Whether hosts may be missing from the answer, which then removes none.
    """

    kind: str
    text: str
    hides_hosts: bool = True


@dataclass(frozen=True)
class Answer:
    """One look at the hosts.

    Attributes:
        hosts: Hosts in the order in which they were named.
        problems: Faults of the answer.
    """

    hosts: tuple[FoundHost, ...] = ()
    problems: tuple[AnswerFault, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if a host that is not named has been removed."""
        return not any(problem.hides_hosts for problem in self.problems)


def failed(kind: str, text: str) -> Answer:
    """Return the answer of a look that failed."""
    return Answer(problems=(AnswerFault(kind, shortened(text)),))


def read_answer(text: str, slots: int) -> Answer:
    """Return the answer that a discovery script has printed.

    Args:
        text: A host on each line, as `HOST:SLOTS`, `HOST` or `HOST slots=N`; empty lines and `#` comments are
            skipped.
        slots: Slots of a host whose line gives no number.
    """
    hosts: dict[str, FoundHost] = {}
    problems: list[AnswerFault] = []
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            read = parse_host_line(words, f"line {number}", slots, least=0)
        except ConfigError as error:
            problems.append(_unreadable(number, line, error))
            continue
        identity = host_identity(read.name)
        known = hosts.get(identity, FoundHost(read.name, 0))
        if identity in hosts:
            both = f"{read.name!r} twice, with {known.slots} and {read.slots} slots"
            text = f"it named the host {both}; the larger number holds"
            problems.append(AnswerFault("twice", text, hides_hosts=False))
        hosts[identity] = FoundHost(known.name, max(known.slots, read.slots))
    if len(hosts) > MAX_HOSTS:
        return failed("size", f"it named {len(hosts)} hosts; allowed: {MAX_HOSTS}")
    if not hosts and not problems:
        problems.append(AnswerFault("empty", "it named no host; the hosts stay as they were"))
    return Answer(tuple(hosts.values()), _one_of_each_kind(problems))


def answer_text(found: object) -> str:
    """Return the result of a discovery function as the text that a script would have printed.

    Args:
        found: Mapping of hosts to slots, or a sequence of `HOST`, `HOST:SLOTS` or (host, slots).

    Raises:
        TypeError: If it is neither.
    """
    if isinstance(found, Mapping):
        return "\n".join(_entry(item) for item in found.items())
    if isinstance(found, Sequence) and not isinstance(found, str | bytes):
        return "\n".join(_entry(item) for item in found)
    raise TypeError(f"it returned {type(found).__name__}; return {{'host': slots, ...}} or ['host:slots', ...]")


def once_here(answer: Answer) -> Answer:
    """Return an answer in which the launcher's machine stands once: other names of it are a fault, and left out."""
    here = [host for host in answer.hosts if host.is_here]
    if len(here) < 2:
        return answer
    names = " and ".join(host.name for host in here)
    problem = AnswerFault("here", f"{names} are all this machine; {here[0].name} holds", hides_hosts=False)
    kept = tuple(host for host in answer.hosts if host not in here[1:])
    return Answer(kept, (*answer.problems, problem))


def shortened(text: str) -> str:
    """Return a text as one line that a person can read at a glance."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN_CHARACTERS else line[:MAX_SHOWN_CHARACTERS] + "..."


def _entry(item: Any) -> str:
    if isinstance(item, str):
        return item
    name, slots = item
    if isinstance(slots, bool) or not isinstance(slots, int) or not isinstance(name, str):
        raise TypeError(f"it returned {shortened(repr(item))}; return a host's name and a number of slots")
    return hosts_text([HostSlots(name, slots)])


def _unreadable(number: int, line: str, error: ConfigError) -> AnswerFault:
    if "slots are not possible" in str(error):
        text = f"line {number}, {shortened(line)!r}, gives a number of slots that is not possible"
        return AnswerFault("slots", f"{text}; allowed: 0 to {MAX_SLOTS}")
    return AnswerFault("line", f"line {number}, {shortened(line)!r}, names no host; print lines such as: node1:4")


def _one_of_each_kind(problems: Sequence[AnswerFault]) -> tuple[AnswerFault, ...]:
    return tuple({problem.kind: problem for problem in reversed(problems)}.values())
