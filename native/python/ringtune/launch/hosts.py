# SPDX-License-Identifier: Apache-2.0
"""The hosts of a job as `-H` or a hostfile names them, and which ranks each gets. Pure: no host is reached here."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ringtune.errors import ConfigError

MAX_SLOTS = 250  # the ranks of one host pass descriptors to each other in one message; the kernel's limit is 253
_ENTRY = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]"
    r"|(?P<name>(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9_][A-Za-z0-9._-]*))"  # host or user@host; never an option
    r"(?::(?P<slots>[0-9]{1,9}))?"
)
_SETTING = re.compile(r"(?P<name>slots|max[_-]slots)=(?P<number>[0-9]{1,9})")
_FORM = "host[:slots],... with an IPv6 address in brackets, for example -H a:2,b,[fd00::3]:4"


@dataclass(frozen=True)
class HostSlots:
    """A host as the user named it.

    Attributes:
        name: Name or address, without brackets; may begin with `user@`.
        slots: Number of ranks that it takes.
    """

    name: str
    slots: int = 1


@dataclass(frozen=True)
class HostShare:
    """The ranks that one host gets.

    Attributes:
        host: Name or address, as the user gave it.
        ranks: Ascending and consecutive, at least one.
    """

    host: str
    ranks: tuple[int, ...]


def parse_hosts(text: str, slots: int = 1) -> tuple[HostSlots, ...]:
    """Return the hosts of a `-H` option, in its order.

    Args:
        text: `host[:slots],...`.
        slots: Slots of a host whose entry gives no number.

    Raises:
        ConfigError: If an entry is malformed or a host is named twice.
    """
    where = f"-H {text!r}"
    return without_repetition([_parse_entry(entry.strip(), where, slots) for entry in text.split(",")], where)


def hosts_text(hosts: Sequence[HostSlots]) -> str:
    """Return hosts as `-H` takes them: the inverse of `parse_hosts`."""
    named = ((f"[{host.name}]" if ":" in host.name else host.name, host.slots) for host in hosts)
    return ",".join(f"{name}:{slots}" for name, slots in named)


def parse_hostfile(text: str, name: str, slots: int = 1) -> tuple[HostSlots, ...]:
    """Return the hosts of a hostfile, in its order.

    Args:
        text: A host on each line: `host slots=N`, `host:N` or `host`; `#` begins a comment. Open MPI's `max_slots=N`
            may follow.
        name: Name of the file, for messages.
        slots: Slots of a host whose entry gives no number.

    Raises:
        ConfigError: If a line is malformed, no host is named, or one is named twice.
    """
    hosts = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words:
            hosts.append(parse_host_line(words, f"--hostfile {name}, line {number}", slots))
    if not hosts:
        raise ConfigError(f"--hostfile {name} names no host; write lines such as: node1 slots=4")
    return without_repetition(hosts, f"--hostfile {name}")


def without_repetition(hosts: Sequence[HostSlots], where: str) -> tuple[HostSlots, ...]:
    """Return the hosts; raise `ConfigError`, naming the place, if one is among them twice."""
    seen: set[str] = set()
    for host in hosts:
        if host_identity(host.name) in seen:
            raise ConfigError(f"{where} names the host {host.name!r} twice; name it once, with the sum of the slots")
        seen.add(host_identity(host.name))
    return tuple(hosts)


def share_out(hosts: Sequence[HostSlots], ranks: int) -> tuple[HostShare, ...]:
    """Fill the hosts with ranks, in their order; hosts that get none are left out.

    Args:
        hosts: Result of `parse_hosts`.
        ranks: Number of ranks, at least 1.

    Raises:
        ConfigError: If there are more ranks than slots.
    """
    slots = sum(host.slots for host in hosts)
    if ranks > slots:
        listed = ", ".join(f"{host.name}: {host.slots}" for host in hosts)
        raise ConfigError(
            f"-np {ranks} is more than the {slots} slots of the hosts ({listed}); give hosts more slots, in -H as "
            "host:slots, or start fewer ranks"
        )
    shares, first = [], 0
    for host in hosts:
        count = min(host.slots, ranks - first)
        if count:
            shares.append(HostShare(host.name, tuple(range(first, first + count))))
        first += count
    return tuple(shares)


def parse_host_line(words: Sequence[str], where: str, default_slots: int, least: int = 1) -> HostSlots:
    """Return the host of a line of a hostfile, or of a discovery script.

    Args:
        words: Words of the line, at least one.
        where: Place of the line, for messages.
        default_slots: Slots of a host whose line gives no number.
        least: Smallest number of slots that is allowed.

    Raises:
        ConfigError: If the line is malformed.
    """
    host, *settings = words
    for setting in settings:
        match = _SETTING.fullmatch(setting)
        if match is None:
            raise ConfigError(f"{where}: {setting!r} is not known there; write for example: node1 slots=4")
        if match["name"] == "slots":
            named = _ENTRY.fullmatch(host)
            if named is not None and named["slots"] is not None:
                raise ConfigError(
                    f"{where}: {' '.join(words)!r} says twice how many slots; write for example: a slots=4"
                )
            host = f"{host}:{match['number']}"
    return _parse_entry(host, where, default_slots, least)


def _parse_entry(entry: str, where: str, default_slots: int, least: int = 1) -> HostSlots:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise ConfigError(f"{where}: {entry!r} is not a host; allowed: {_FORM}")
    slots = int(match["slots"] or default_slots)
    if not least <= slots <= MAX_SLOTS:
        raise ConfigError(f"{where}: {slots} slots are not possible; allowed: {least} to {MAX_SLOTS} on one host")
    if match["ipv6"] is None:
        return HostSlots(match["name"], slots)
    try:
        ipaddress.IPv6Address(match["ipv6"])
    except ValueError as error:
        raise ConfigError(f"{where}: {match['ipv6']!r} is no IPv6 address ({error}); allowed: {_FORM}") from error
    return HostSlots(match["ipv6"], slots)


def host_identity(name: str) -> str:
    """Return a host's name without user, capitals and final dot, or its IP address in the canonical form."""
    host = name.rpartition("@")[2].lower().rstrip(".")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host
