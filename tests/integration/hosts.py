# SPDX-License-Identifier: Apache-2.0
"""Several hosts on one machine: a network and a process-id namespace each, joined by a switch, links at a given rate.

No part of it is seen outside: the addresses 10.77.0.x exist in these namespaces alone, so that tests may run side by
side. A host's processes die with its process-id namespace, whatever they do. The namespaces have no names: each lives
as long as its first process, which ends with the test's process, however that one ends.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

NEEDED = ("ip", "tc", "unshare", "nsenter", "bash")
INTERFACE = "eth0"
BURST = "64kb"  # a larger bucket would let short messages through at any rate
QUEUE_LATENCY = "100ms"


def _missing() -> str:
    """Return why there can be no hosts here; empty if there can be some."""
    programs = [name for name in NEEDED if shutil.which(name) is None]
    if programs:
        return f"{', '.join(programs)} not found; `make system-packages` installs iproute2 and util-linux"
    return "" if os.geteuid() == 0 else "namespaces need root"


MISSING = _missing()
needs_hosts = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@dataclass(frozen=True)
class Host:
    """One host.

    Attributes:
        name: Its name among the hosts that were made together.
        address: On the link between the hosts; `127.0.0.1` is there as well, the host's own.
        init_pid: The first process of its process-id namespace, as seen from outside.
        switch_pid: A process in the switch's network namespace.
        port: The host's interface on the switch.
    """

    name: str
    address: str
    init_pid: int
    switch_pid: int
    port: str

    def command(self, *command: str) -> list[str]:
        """Return the command line that runs a command on this host, seen as an ordinary child from outside."""
        return ["nsenter", "--target", str(self.init_pid), "--net", "--mount", "--pid", "--", *command]

    def set_link(self, *, is_up: bool) -> None:
        """Plug the host's cable in or out, at the switch: the host itself sees no more than silence."""
        _run(*in_network(self.switch_pid, "ip", "link", "set", self.port, "up" if is_up else "down"))


@contextmanager
def hosts(count: int, *, rate: str = "") -> Iterator[list[Host]]:
    """Make hosts and tear them down.

    Args:
        count: Number of hosts.
        rate: Limit on the bytes that each host sends and receives, in words of `tc`, such as `1gbit`; empty for none.
    """
    with ExitStack() as stack:
        switch_pid = _start_init(stack)
        _run(*in_network(switch_pid, "ip", "link", "add", "switch", "type", "bridge"))
        _run(*in_network(switch_pid, "ip", "link", "set", "switch", "up"))
        yield [_make_host(stack, switch_pid, number, rate) for number in range(count)]


def _make_host(stack: ExitStack, switch_pid: int, number: int, rate: str) -> Host:
    host = Host(f"host{number}", f"10.77.0.{number + 1}", _start_init(stack), switch_pid, f"port{number}")
    peer = ("peer", "name", INTERFACE, "netns", str(host.init_pid))
    _run(*in_network(switch_pid, "ip", "link", "add", host.port, "type", "veth", *peer))
    _run(*in_network(switch_pid, "ip", "link", "set", host.port, "master", "switch", "up"))
    _run(*from_host(host, "ip", "address", "add", f"{host.address}/24", "dev", INTERFACE))
    _run(*from_host(host, "ip", "link", "set", "lo", "up"))
    _run(*from_host(host, "ip", "link", "set", INTERFACE, "up"))
    if rate:
        shape = ("root", "tbf", "rate", rate, "burst", BURST, "latency", QUEUE_LATENCY)
        _run(*from_host(host, "tc", "qdisc", "add", "dev", INTERFACE, *shape))
        _run(*in_network(switch_pid, "tc", "qdisc", "add", "dev", host.port, *shape))
    return host


def add_network(first: Host, second: Host, *, number: int, rate: str = "", is_cut: bool = False) -> None:
    """Give two hosts one more network: 10.77.NUMBER.1 and .2, on interfaces eth NUMBER.

    Args:
        first: One host.
        second: The other host.
        number: Number of the network, from 1.
        rate: Limit as `hosts` takes it; empty for none.
        is_cut: Whether the interfaces lead nowhere, though both are up.
    """
    interface = f"eth{number}"
    ends = [(first, f"cut{number}"), (second, f"cut{number}")] if is_cut else [(first, interface)]
    for host, other in ends:
        peer = ("peer", "name", other) if is_cut else ("peer", "name", interface, "netns", str(second.init_pid))
        _run(*from_host(host, "ip", "link", "add", interface, "type", "veth", *peer))
        if is_cut:
            _run(*from_host(host, "ip", "link", "set", other, "up"))
    for place, host in enumerate((first, second), start=1):
        _run(*from_host(host, "ip", "address", "add", f"10.77.{number}.{place}/24", "dev", interface))
        _run(*from_host(host, "ip", "link", "set", interface, "up"))
        if rate:
            shape = ("root", "tbf", "rate", rate, "burst", BURST, "latency", QUEUE_LATENCY)
            _run(*from_host(host, "tc", "qdisc", "add", "dev", interface, *shape))


def _start_init(stack: ExitStack) -> int:
    """Start the first process of a host: it reaps orphans, and its end ends the host's processes.

    It ends at the end of its standard input, whose other end this process holds.
    """
    process = subprocess.Popen(
        ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", "echo $$; read"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    stack.callback(_end, process)
    assert process.stdout is not None
    assert "1" == process.stdout.readline().strip()  # it is there, and the first of its namespace
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    with open(children, encoding="ascii") as listing:  # noqa: PTH123  (a file of the kernel's)
        return int(listing.read().split()[0])


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _run(*command: str) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == finished.returncode, f"{' '.join(command)}: {finished.stderr}"


def run_on(host: Host, command: Sequence[str], *, limit_s: float = 30.0) -> str:
    """Run a command on a host to its successful end and return its output."""
    finished = subprocess.run(
        host.command(*command), capture_output=True, text=True, timeout=limit_s, check=False, stdin=subprocess.DEVNULL
    )
    assert 0 == finished.returncode, f"{' '.join(command)} on {host.name}: {finished.stderr}"
    return finished.stdout


def enter_rsh(folder: Path, *others: Host) -> str:
    """Write a remote shell that enters one of the hosts by its address, and return its path."""
    cases = "".join(f'  {host.address}) exec {" ".join(host.command("sh"))} -c "$2";;\n' for host in others)
    script = folder / "rsh"
    script.write_text(f'#!/bin/sh\ncase $1 in\n{cases}  *) echo "no host $1" >&2; exit 1;;\nesac\n', encoding="utf-8")
    script.chmod(0o755)
    return str(script)


def from_host(host: Host, *command: str) -> list[str]:
    """Return the command line that runs a command with a host's network, and with everybody's process ids."""
    return in_network(host.init_pid, *command)


def in_network(pid: int, *command: str) -> list[str]:
    """Return the command line that runs a command with a process's network."""
    return ["nsenter", "--target", str(pid), "--net", "--", *command]
