# SPDX-License-Identifier: Apache-2.0
"""The arguments of `horovod.run`, as options of the launcher: each acts there, or is refused with a sentence here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ringtune.errors import ConfigError
from ringtune.launch.addresses import is_this_machine
from ringtune.launch.hosts import share_out
from ringtune.launch_options.choices import Choices, refuse
from ringtune.launch_options.controllers import starts_by_mpi
from ringtune.launch_options.places import named_hosts, named_interfaces
from ringtune.launch_options.tables import OPTIONS

FIELDS = {
    "min_num_proc": "min_np",
    "min_np": "min_np",
    "max_num_proc": "max_np",
    "max_np": "max_np",
    "slots": "slots_per_host",
    "reset_limit": "reset_limit",
    "cooldown_range": "blacklist_cooldown_range",
    "hosts": "hosts",
    "hostfile": "hostfile",
    "start_timeout": "start_timeout",
    "ssh_port": "ssh_port",
    "ssh_identity_file": "ssh_identity_file",
    "disable_cache": "disable_cache",
    "output_filename": "output_filename",
    "verbose": "verbose",
    "use_gloo": "gloo",
    "use_mpi": "mpi",
    "mpi_args": "mpi_args",
    "network_interface": "network_interfaces",
}
"""The option behind each argument that is one."""


@dataclass(frozen=True)
class LaunchArguments:
    """Settings of a `ringtune.run` beside the function.

    Attributes:
        ranks: Number of ranks.
        options: Command-line options of the launcher.
        executable: The ranks' Python; None for this process's.
    """

    ranks: int
    options: tuple[str, ...] = ()
    executable: str | None = None


def launch_arguments(arguments: Mapping[str, Any]) -> LaunchArguments:
    """Return what the arguments of a call ask for; None, False and an empty text stand for "not given".

    Args:
        arguments: Arguments by Horovod's names, and `np`.

    Raises:
        ConfigError: If a value is not allowed, asks for what a job cannot have, or names another machine.
        TypeError: If there is no such argument.
    """
    for name in arguments:
        if name not in {*FIELDS, "np", "num_proc", "executable"}:
            raise TypeError(f"ringtune.run() got an unexpected keyword argument {name!r}")
    ranks = number_of_ranks(arguments.get("np"), arguments.get("num_proc"))
    given = {name: value for name, value in arguments.items() if name in FIELDS and value}
    choices = _choices(given)
    starts_by_mpi(choices)
    _check_places(choices, ranks)
    words = tuple(word for name, value in given.items() for word in _words(name, value))
    return LaunchArguments(ranks, words, arguments.get("executable"))


def number_of_ranks(np: int | None, num_proc: int | None) -> int:
    """Return how many ranks are asked for.

    Args:
        np: Number of ranks.
        num_proc: The same under Horovod's newer name.

    Raises:
        ConfigError: If neither is given, or both are and differ.
    """
    given = {number for number in (np, num_proc) if number is not None}
    if len(given) != 1:
        raise ConfigError(f"ringtune.run(np={np}, num_proc={num_proc}) is not possible; give the number of ranks as np")
    return given.pop()


def _choices(given: Mapping[str, Any]) -> Choices:
    """Return the options behind arguments; raise `ConfigError` for one that is refused, or has a wrong value."""
    by_field = {}
    for name, value in given.items():
        choice = OPTIONS[FIELDS[name]].choose(_raw(name, value), f"ringtune.run({name}={value!r})")
        refuse(choice)
        by_field[choice.option.field] = choice
    return Choices(by_field)


def _raw(name: str, value: Any) -> Any:
    """Return an argument as its option reads it: True, a text, or texts."""
    option = OPTIONS[FIELDS[name]]
    if option.reader is None:
        return True
    return tuple(map(str, value)) if option.words > 1 else str(value)


def _words(name: str, value: Any) -> tuple[str, ...]:
    """Return an argument as the launcher's command line has it."""
    option = OPTIONS[FIELDS[name]]
    return (option.names[0],) if option.reader is None else (option.names[0], str(value))


def _check_places(choices: Choices, ranks: int) -> None:
    """Refuse hosts on which `ringtune.run` starts no ranks: the function is handed over in a folder of this machine."""
    hosts = named_hosts(choices)
    named_interfaces(choices)
    elsewhere = [] if hosts is None else [s.host for s in share_out(hosts, ranks) if not is_this_machine(s.host)]
    if elsewhere:
        (origin,) = choices.given("hosts", "hostfile")
        raise ConfigError(
            f"{origin} is not possible, for it starts ranks on this machine alone and {elsewhere[0]} is another; start "
            f"the program with: ringtune run -np {ranks} -H HOST:SLOTS,... python PROGRAM"
        )
