# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs as the options ask for them: their limits, and where their hosts come from."""

import socket
from collections.abc import Mapping, Sequence

from ringtune.errors import ConfigError
from ringtune.launch.addresses import is_this_machine, refuse_same_machine
from ringtune.launch.elastic.answers import FoundHost
from ringtune.launch.elastic.discovery import DiscoverySource
from ringtune.launch.elastic.finder import FUNCTION, SCRIPT
from ringtune.launch.elastic.host_table import Cooldown
from ringtune.launch.elastic.sizes import DEFAULT_ELASTIC_TIMEOUT_S, NO_LIMIT, WorldLimits
from ringtune.launch.hosts import MAX_SLOTS, HostSlots, share_out

from .choices import Choices
from .controllers import starts_by_mpi
from .places import listed_hosts, named_function, refuse_useless
from .tables import OPTIONS

ELASTIC_TIMEOUT_NAME = "HOROVOD_ELASTIC_TIMEOUT"
_CAUSES = ("min_np", "max_np", "host_discovery_script")
_DETAILS = ("elastic_timeout", "reset_limit", "blacklist_cooldown_range")


def is_elastic(choices: Choices) -> bool:
    """Return whether a job is elastic.

    Raises:
        ConfigError: If it is not, and an option is about elastic jobs alone; or it is, and mpirun is to start it.
    """
    causes = choices.given(*_CAUSES)
    for origin in choices.given(*_DETAILS):
        if not causes:
            raise ConfigError(f"{origin} is about elastic jobs, and this is none; add --min-np, or leave it out")
    if causes and starts_by_mpi(choices):
        raise ConfigError(f"{causes[0]}: mpirun starts a fixed number of ranks; leave out --mpi")
    return bool(causes)


def elastic_limits(choices: Choices, environ: Mapping[str, str], start_s: float) -> WorldLimits:
    """Return the limits of an elastic job.

    Args:
        choices: The options.
        environ: The launcher's environment.
        start_s: Time for the first workers to come, and for a host to answer.

    Raises:
        ConfigError: If the number of workers is missing, or numbers contradict each other.
    """
    least, first = choices.value("min_np"), choices.value("num_proc")
    if least is None and first is None:
        raise ConfigError("the smallest number of workers is missing; give it with --min-np, or with -np")
    elastic_s = choices.value("elastic_timeout")
    if elastic_s is None:
        text = environ.get(ELASTIC_TIMEOUT_NAME, "").strip() or str(DEFAULT_ELASTIC_TIMEOUT_S)
        elastic_s = OPTIONS["elastic_timeout"].choose(text, ELASTIC_TIMEOUT_NAME).value
    return WorldLimits(
        min_workers=first if least is None else least,
        first_workers=least if first is None else first,
        max_workers=choices.value("max_np", NO_LIMIT),
        start_s=start_s,
        elastic_s=elastic_s,
        reset_limit=choices.value("reset_limit"),
        cooldown=Cooldown(*choices.value("blacklist_cooldown_range", ())),
    )


def elastic_hosts(choices: Choices, limits: WorldLimits) -> tuple[FoundHost, ...] | DiscoverySource:
    """Return the hosts of an elastic job, or the program that finds them.

    Raises:
        ConfigError: If options name hosts in two ways, or a host is malformed.
    """
    ways = choices.given("host_discovery_script", "hosts_from", "hosts", "hostfile")
    if len(ways) > 1:
        raise ConfigError(f"{' and '.join(ways)} both name the hosts; give one of them")
    slots = choices.value("slots_per_host", 1)
    script = choices.value("host_discovery_script")
    if script is not None:
        return DiscoverySource(SCRIPT, script, slots, "--host-discovery-script")
    function = named_function(choices)
    if function is not None:
        return DiscoverySource(FUNCTION, function, slots, "--hosts-from")
    listed = listed_hosts(choices)
    if listed is not None:
        return _fixed_hosts(listed, limits)
    refuse_useless(choices, besides=("slots_per_host",))
    most = limits.first_workers if limits.max_workers == NO_LIMIT else int(limits.max_workers)
    local = choices.value("slots_per_host", most)
    if local > MAX_SLOTS:
        raise ConfigError(f"{local} workers are not possible on one host; allowed: 1 to {MAX_SLOTS}")
    return _fixed_hosts([HostSlots(socket.gethostname(), local)], limits, is_here=True)


def _fixed_hosts(listed: Sequence[HostSlots], limits: WorldLimits, *, is_here: bool = False) -> tuple[FoundHost, ...]:
    """Return hosts that do not change; raise `ConfigError` for too few slots, or this machine under two names."""
    share_out(listed, limits.first_workers)
    found = tuple(FoundHost(host.name, host.slots, is_here or is_this_machine(host.name)) for host in listed)
    refuse_same_machine([host.name for host in found if host.is_here])
    return found
