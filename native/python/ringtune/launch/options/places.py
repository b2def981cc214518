# SPDX-License-Identifier: Apache-2.0
"""Places that the options name: the hosts of a job, and this machine's address among them. Reads the hostfile."""

from collections.abc import Collection, Mapping
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.launch.elastic.discovery import DiscoverySource, check_function, find_once
from ringtune.launch.elastic.finder import FUNCTION
from ringtune.launch.hosts import HostSlots, parse_hostfile, parse_hosts
from ringtune.meeting.rendezvous.interfaces import interface_address

from .choices import Choices

MAX_HOSTFILE_CHARACTERS = 1 << 20


def named_hosts(choices: Choices, environ: Mapping[str, str]) -> tuple[HostSlots, ...] | None:
    """Return the hosts of -H, of the hostfile, or of a function; None where there is none of them.

    Args:
        choices: The options.
        environ: Environment of the function.

    Raises:
        ConfigError: If hosts are named in two ways, cannot be read, are malformed or named twice, or an option is about
            other hosts and there are none.
    """
    ways = choices.given("hosts", "hostfile", "hosts_from")
    if len(ways) > 1:
        raise ConfigError(f"{' and '.join(ways)} both name the hosts; give one of them")
    function = named_function(choices)
    if function is not None:
        source = DiscoverySource(FUNCTION, function, choices.value("slots_per_host", 1), "--hosts-from")
        return find_once(source, environ)
    hosts = listed_hosts(choices)
    if hosts is None:
        refuse_useless(choices)
    return hosts


def listed_hosts(choices: Choices) -> tuple[HostSlots, ...] | None:
    """Return the hosts of -H or of the hostfile; None where there is neither.

    Raises:
        ConfigError: If the file cannot be read, or a host is malformed or named twice.
    """
    hosts, file = choices.value("hosts"), choices.value("hostfile")
    slots = choices.value("slots_per_host", 1)
    if file is not None:
        return parse_hostfile(_text_of(file), file, slots)
    return None if hosts is None else parse_hosts(hosts, slots)


def named_function(choices: Choices) -> str | None:
    """Return the discovery function that --hosts-from names; raise `ConfigError` for a text that names none."""
    name: str | None = choices.value("hosts_from")
    if name is not None:
        check_function(name)
    return name


def refuse_useless(choices: Choices, besides: Collection[str] = ()) -> None:
    """Raise `ConfigError` for an option about other hosts in a job that has none.

    Args:
        choices: The options.
        besides: Options that are of use all the same.
    """
    about_hosts = ("ssh_port", "ssh_identity_file", "rsh", "slots_per_host")
    useless = choices.given(*(field for field in about_hosts if field not in besides))
    if useless:
        raise ConfigError(f"{', '.join(useless)} without -H: there is no other host to reach; name hosts with -H")


def named_interfaces(choices: Choices) -> list[str]:
    """Return the network interfaces that were named.

    Raises:
        ConfigError: If this machine does not have one of them, or none of them has an address.
    """
    groups = [choices.value("network_interfaces", ()), *choices.value("network_interface", ())]
    names = [name for group in groups for name in group]
    if names:
        interface_address(names)
    return names


def _text_of(file: str) -> str:
    try:
        with Path(file).open(encoding="utf-8") as stream:
            text = stream.read(MAX_HOSTFILE_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--hostfile {file} cannot be read ({error}); give a text file with a host a line") from error
    if len(text) > MAX_HOSTFILE_CHARACTERS:
        raise ConfigError(
            f"--hostfile {file} has more than {MAX_HOSTFILE_CHARACTERS} characters; give a file with a host a line"
        )
    return text
