# SPDX-License-Identifier: Apache-2.0
"""Places that the options name: the hosts of a job, and this machine's address among them. Reads the hostfile."""

from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.launch.hosts import HostSlots, parse_hostfile, parse_hosts
from ringtune.rendezvous.interfaces import interface_address

from .choices import Choices

MAX_HOSTFILE_CHARACTERS = 1 << 20


def named_hosts(choices: Choices) -> tuple[HostSlots, ...] | None:
    """Return the hosts of -H or of the hostfile; None where there is neither.

    Raises:
        ConfigError: If both are given, the file cannot be read, a host is malformed or named twice, or an option is
            about other hosts and there are none.
    """
    hosts, file = choices.value("hosts"), choices.value("hostfile")
    slots = choices.value("slots_per_host", 1)
    if hosts is not None and file is not None:
        raise ConfigError(f"{' and '.join(choices.given('hosts', 'hostfile'))} both name the hosts; give one of them")
    if file is not None:
        return parse_hostfile(_text_of(file), file, slots)
    if hosts is not None:
        return parse_hosts(hosts, slots)
    useless = choices.given("ssh_port", "ssh_identity_file", "rsh", "slots_per_host")
    if useless:
        raise ConfigError(f"{', '.join(useless)} without -H: there is no other host to reach; name hosts with -H")
    return None


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
