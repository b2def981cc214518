# SPDX-License-Identifier: Apache-2.0
"""Names of Slurm's nodes: a list of them expanded, and the address at which a node is reached."""

import ipaddress
import re
import socket
import subprocess
from collections.abc import Iterator, Sequence

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.interfaces import route_address

_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[]*\])")
_RANGE = r"[0-9]{1,6}(?:-[0-9]{1,6})?"
_NODES = re.compile(
    rf"(?P<prefix>[A-Za-z0-9._-]+)(?:\[(?P<ranges>{_RANGE}(?:,{_RANGE})*)\])?(?P<suffix>[A-Za-z0-9._-]*)"
)
_NODE_ADDRESS = re.compile(r"\bNodeAddr=(\S+)")
_CONTROL_LIMIT_S = 20.0  # scontrol asks the controller, which may be busy


def expand_nodes(nodes: str) -> Iterator[str]:
    """Yield the names in a list of Slurm's, such as `gpu[01-03,7],login`.

    Raises:
        ConfigError: If it is empty or not of that form.
    """
    if not nodes:
        raise ConfigError(
            "SLURM_STEP_NODELIST=(not set) is not allowed; allowed: the nodes of the step, as srun sets it"
        )
    for part in _COMMA_OUTSIDE_BRACKETS.split(nodes):
        match = _NODES.fullmatch(part)
        if match is None:
            raise ConfigError(
                f"SLURM_STEP_NODELIST={nodes!r} is not allowed; allowed: names such as gpu[01-03,7],login"
            )
        yield from (f"{match['prefix']}{number}{match['suffix']}" for number in _numbers(match["ranges"]))


def _numbers(ranges: str | None) -> Iterator[str]:
    if ranges is None:
        yield ""
        return
    for item in ranges.split(","):
        first, _, last = item.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield str(number).zfill(len(first))


def first_node_address(names: Sequence[str]) -> str:
    """Return an address of the first node that it can listen on, and that the others reach.

    The name of a node need not be a host's name: then Slurm's own address of it (`NodeAddr`) is asked for. A host that
    has its own name on loopback, as Debian does, takes its interface towards the second node.

    Args:
        names: At least two nodes.

    Raises:
        ConfigError: If neither name nor `NodeAddr` leads to an address.
    """
    first, second = names[:2]
    address = _resolved(first) or _resolved(_node_address(first))
    if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        return address
    return route_address(_resolved(second) or _node_address(second))


def _resolved(name: str) -> str:
    """Return the numeric address of a name; empty where it has none."""
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return ""


def _node_address(name: str) -> str:
    """Return the address under which Slurm reaches a node, numeric.

    Raises:
        ConfigError: If scontrol cannot be run, or its answer has no address that can be resolved.
    """
    try:
        finished = subprocess.run(
            ["scontrol", "--oneliner", "show", "node", name],
            capture_output=True,
            text=True,
            timeout=_CONTROL_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        output = finished.stdout + finished.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        output = str(error)
    match = _NODE_ADDRESS.search(output)
    address = _resolved(match[1]) if match else ""
    if not address:
        found = f"NodeAddr={match[1]}, which cannot be resolved either" if match else " ".join(output.split())
        raise ConfigError(
            f"the node {name!r} of SLURM_STEP_NODELIST has no address here: its name cannot be resolved, and `scontrol "
            f"show node {name}` says {found!r}; enter it in the nodes' /etc/hosts or DNS, or set NodeAddr in slurm.conf"
        )
    return address
