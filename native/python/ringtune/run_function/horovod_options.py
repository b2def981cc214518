# SPDX-License-Identifier: Apache-2.0
"""The arguments of `horovod.run`, as options of the launcher: each acts there, or is refused with a sentence here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ringtune.errors import ConfigError
from ringtune.launch.addresses import is_this_machine
from ringtune.launch.hosts import share_out
from ringtune.launch.options.choices import Choices, refuse
from ringtune.launch.options.controllers import starts_by_mpi
from ringtune.launch.options.elasticity import elastic_hosts, elastic_limits, is_elastic
from ringtune.launch.options.places import named_hosts, named_interfaces
from ringtune.launch.options.tables import OPTIONS
from ringtune.meeting.bootstrap import environment

from .host_argument import host_option

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
        ranks: Number of ranks; in an elastic job the number that the first meeting waits for.
        options: Command-line options of the launcher.
        executable: The ranks' Python; None for this process's.
        is_elastic: Whether ranks may be lost and added.
        names_others: Whether ranks may run on other hosts.
    """

    ranks: int
    options: tuple[str, ...] = ()
    executable: str | None = None
    is_elastic: bool = False
    names_others: bool = False


def launch_arguments(arguments: Mapping[str, Any]) -> LaunchArguments:
    """Return the launch that the arguments of a call describe; None, False and an empty text stand for "not given".

    Args:
        arguments: Arguments by Horovod's names, and `np`.

    Raises:
        ConfigError: If a value is not allowed, or asks for an option that a job cannot have.
        TypeError: If there is no such argument.
    """
    for name in arguments:
        if name not in {*FIELDS, "np", "num_proc", "executable"}:
            raise TypeError(f"ringtune.run() got an unexpected keyword argument {name!r}")
    arguments = {**arguments, "hosts": host_option(arguments.get("hosts"))}
    given = {name: value for name, value in arguments.items() if name in FIELDS and (value or _is_zero(name, value))}
    choices = _choices(given)
    least = choices.value("min_np")
    ranks = number_of_ranks(arguments.get("np"), arguments.get("num_proc"), least)
    starts_by_mpi(choices)
    names_others = _names_others(choices, ranks)
    words = tuple(word for name, value in given.items() for word in _words(name, value))
    return LaunchArguments(ranks, words, arguments.get("executable"), is_elastic(choices), names_others)


def number_of_ranks(np: int | None, num_proc: int | None, least: int | None = None) -> int:
    """Return how many ranks are asked for.

    Args:
        np: Number of ranks.
        num_proc: The same under Horovod's newer name.
        least: Smallest number of ranks in an elastic job, which holds where no number is given.

    Raises:
        ConfigError: If neither is given, or both are and differ.
    """
    named = (np, num_proc) if (np, num_proc) != (None, None) else (least,)
    given = {number for number in named if number is not None}
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
    if option.reader is None:
        return (option.names[0],)
    return (option.names[0], *(map(str, value) if option.words > 1 else (str(value),)))


def _is_zero(name: str, value: Any) -> bool:
    """Return whether an argument is a limit of 0, which is a value."""
    return name == "reset_limit" and value is not None and value is not False and value == 0


def _names_others(choices: Choices, ranks: int) -> bool:
    """Return whether ranks may run on other hosts; raise `ConfigError` for places that are not possible."""
    named_interfaces(choices)
    if is_elastic(choices):
        first = OPTIONS["num_proc"].choose(str(ranks), f"ringtune.run(np={ranks})")
        limits = elastic_limits(Choices({**choices.by_field, "num_proc": first}), environment(), start_s=1.0)
        found = elastic_hosts(choices, limits)
        return not isinstance(found, tuple) or not all(host.is_here for host in found)
    hosts = named_hosts(choices, environment())
    return hosts is not None and not all(is_this_machine(share.host) for share in share_out(hosts, ranks))
