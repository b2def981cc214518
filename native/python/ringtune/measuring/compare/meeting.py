# SPDX-License-Identifier: Apache-2.0
"""The address at which rank 0 of a run serves torch's store, as all hosts of the job reach it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ringtune.launch import make_remote_shell
from ringtune.launch.addresses import is_this_machine
from ringtune.launch.hosts import HostSlots, share_out
from ringtune.launch.torch_place import find_port
from ringtune.meeting.rendezvous.interfaces import route_address

from .launching import StoreAddress

LOOPBACK = "127.0.0.1"
ANSWER_LIMIT_S = 30.0


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
        return StoreAddress(LOOPBACK, partial(find_port, is_here=True))
    shell = make_remote_shell(reach.get("--rsh"), reach.get("-p"), reach.get("-i"), ANSWER_LIMIT_S)
    names = [share.host for share in share_out(hosts, ranks)]
    remote = [name for name in names if not is_this_machine(name)]
    if names[0] in remote:
        return StoreAddress(shell.address_of(names[0]), partial(find_port, is_here=False))
    address = route_address(shell.address_of(remote[0])) if remote else LOOPBACK
    return StoreAddress(address, partial(find_port, is_here=True))
