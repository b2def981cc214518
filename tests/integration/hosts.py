# SPDX-License-Identifier: Apache-2.0
"""Several hosts on one machine: a network and a process-id namespace each, joined by a switch, links at a given rate.

Nothing of it is seen outside: the addresses 10.77.0.x exist in these namespaces alone, so that tests may run side by
side. A host's processes die with its process-id namespace, whatever they do.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

NEEDED = ("ip", "tc", "unshare", "nsenter", "bash")
INTERFACE = "eth0"
BURST = "64kb"  # a larger bucket would let short messages through at any rate
QUEUE_LATENCY = "100ms"


def _missing() -> str:
    """Return why there can be no hosts here, or nothing."""
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
        name: The name of its network namespace.
        address: On the link between the hosts; `127.0.0.1` is there as well, the host's own.
        init_pid: The first process of its process-id namespace, as seen from outside.
        switch: Name of the switch's network namespace.
        port: The host's interface on the switch.
    """

    name: str
    address: str
    init_pid: int
    switch: str
    port: str

    def command(self, *command: str) -> list[str]:
        """Return the command line that runs a command on this host, seen as an ordinary child from outside."""
        return ["nsenter", "--target", str(self.init_pid), "--net", "--mount", "--pid", "--", *command]

    def set_link(self, *, is_up: bool) -> None:
        """Plug the host's cable in or out, at the switch: the host itself sees no more than silence."""
        _run("ip", "-n", self.switch, "link", "set", self.port, "up" if is_up else "down")


@contextmanager
def hosts(count: int, *, rate: str = "") -> Iterator[list[Host]]:
    """Make hosts and tear them down.

    Args:
        count: Number of hosts.
        rate: Limit on what each host sends and receives, in words of `tc`, such as `1gbit`; empty for none.
    """
    job = f"ringtune{uuid.uuid4().hex[:8]}"
    switch = f"{job}-switch"
    with ExitStack() as stack:
        _add_namespace(stack, switch)
        _run("ip", "-n", switch, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "switch", "up")
        made = [_make_host(stack, job, switch, number, rate) for number in range(count)]
        yield made


def _make_host(stack: ExitStack, job: str, switch: str, number: int, rate: str) -> Host:
    name, port, address = f"{job}-{number}", f"port{number}", f"10.77.0.{number + 1}"
    _add_namespace(stack, name)
    peer = ("peer", "name", port, "netns", switch)
    _run("ip", "link", "add", INTERFACE, "netns", name, "type", "veth", *peer)
    _run("ip", "-n", switch, "link", "set", port, "master", "switch", "up")
    _run("ip", "-n", name, "address", "add", f"{address}/24", "dev", INTERFACE)
    _run("ip", "-n", name, "link", "set", "lo", "up")
    _run("ip", "-n", name, "link", "set", INTERFACE, "up")
    if rate:
        shape = ("root", "tbf", "rate", rate, "burst", BURST, "latency", QUEUE_LATENCY)
        _run("tc", "-n", name, "qdisc", "add", "dev", INTERFACE, *shape)
        _run("tc", "-n", switch, "qdisc", "add", "dev", port, *shape)
    return Host(name, address, _start_init(stack, name), switch, port)


def _add_namespace(stack: ExitStack, name: str) -> None:
    _run("ip", "netns", "add", name)
    stack.callback(_run, "ip", "netns", "delete", name)


def _start_init(stack: ExitStack, name: str) -> int:
    """Start the first process of a host: it reaps what is left to it, and its end ends the host's processes."""
    reaper = ["bash", "-c", "echo $$; while true; do sleep 3600; done"]
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    process = subprocess.Popen(
        ["ip", "netns", "exec", name, *unshare, *reaper], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    stack.callback(_end, process)
    assert process.stdout is not None
    assert "1" == process.stdout.readline().strip()  # it is there, and the first of its namespace
    children = f"/proc/{process.pid}/task/{process.pid}/children"  # `ip` has become `unshare`
    with open(children, encoding="ascii") as listing:  # noqa: PTH123  (a file of the kernel's)
        return int(listing.read().split()[0])


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _run(*command: str) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == finished.returncode, f"{' '.join(command)}: {finished.stderr}"


def run_on(host: Host, command: Sequence[str], *, limit_s: float = 30.0) -> str:
    """Run a command on a host to its successful end and return what it wrote."""
    finished = subprocess.run(
        host.command(*command), capture_output=True, text=True, timeout=limit_s, check=False, stdin=subprocess.DEVNULL
    )
    assert 0 == finished.returncode, f"{' '.join(command)} on {host.name}: {finished.stderr}"
    return finished.stdout
