# SPDX-License-Identifier: Apache-2.0
"""The address at which rank 0 of a run serves torch's store, as all hosts of the job reach it."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ringtune.launch import make_remote_shell
from ringtune.launch.addresses import is_this_machine
from ringtune.launch.hosts import HostSlots, share_out
from ringtune.meeting.rendezvous.interfaces import route_address

from .launching import StoreAddress, free_port

LOOPBACK = "127.0.0.1"
ANSWER_LIMIT_S = 30.0
FIRST_PORT, PORTS = 20_000, 10_000
"""Ports for torch's store on a host that cannot be asked for a free one."""


def meeting_place(hosts: Sequence[HostSlots] | None, ranks: int, reach: Mapping[str, Any]) -> StoreAddress:
    """Return the place of rank 0.

    Args:
        hosts: The hosts that were named; None: all ranks on this machine.
        ranks: Number of ranks.
        reach: Remote shell for other hosts: values of `-p`, `-i` and `--rsh`, None where they are not given.

    Raises:
        ConfigError: If there are more ranks than slots, or a remote shell that cannot be called.
    """
    if hosts is None:
        return StoreAddress(LOOPBACK, free_port)
    shell = make_remote_shell(reach.get("--rsh"), reach.get("-p"), reach.get("-i"), ANSWER_LIMIT_S)
    names = [share.host for share in share_out(hosts, ranks)]
    remote = [name for name in names if not is_this_machine(name)]
    if names[0] in remote:
        return StoreAddress(shell.address_of(names[0]), lambda: FIRST_PORT + secrets.randbelow(PORTS))
    return StoreAddress(route_address(shell.address_of(remote[0])) if remote else LOOPBACK, free_port)
