# SPDX-License-Identifier: Apache-2.0
"""Address and port at which rank 0 of a job serves torch's store, told to the ranks by variables."""

import errno
import secrets
import socket
from dataclasses import replace

from ringtune.meeting.bootstrap.torch_variables import STORE_NAMES
from ringtune.settings.variables import TORCH_BACKEND_NAME

from .plan import LaunchPlan

FIRST_PORT, PORTS = 20_000, 10_000
"""Ports for torch's store, below those that Linux gives to outgoing connections: none of these takes one meanwhile."""


def find_port(*, is_here: bool) -> int:
    """Return a port for torch's store.

    Args:
        is_here: Whether rank 0 is on this machine, whose ports can be tried; another machine's cannot.
    """
    while True:
        port = FIRST_PORT + secrets.randbelow(PORTS)
        if not is_here or _is_free(port):
            return port


def with_torch_place(plan: LaunchPlan, address: str, *, is_here: bool) -> LaunchPlan:
    """Return the plan of a job that asks for torch's backend with the place of torch's store; any other as it is.

    Args:
        plan: The job.
        address: Address of rank 0's host, by which the ranks of all hosts reach it.
        is_here: Whether that host is this machine.
    """
    if TORCH_BACKEND_NAME not in plan.environment:
        return plan
    place = dict(zip(STORE_NAMES, (address, str(find_port(is_here=is_here))), strict=True))
    return replace(plan, environment={**plan.environment, **place}, sent=plan.sent | place.keys())


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True
