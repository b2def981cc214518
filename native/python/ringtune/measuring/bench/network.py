# SPDX-License-Identifier: Apache-2.0
"""Several hosts on this machine: namespaces of their own, joined by a switch, each link shaped to a rate.

Links with a delay end in a program that carries packets (`delay_switch.cpp`), which takes a share of a core.

The network is invisible outside, so that runs may be side by side. A host lives as long as its first process, which
ends when its standard input does: the kernel ends the host's processes and removes its interfaces even after a crash.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ringtune.errors import ConfigError, RingtuneError
from ringtune.system.child_process import PIPE, Child

INTERFACE = "eth0"
MTU_BYTES = 1500
DELAYED_MTU_BYTES = 9000  # a packet costs the delay's program as much time whatever its size
_NEEDED = ("ip", "tc", "unshare", "nsenter")
_BURST = "128kb"  # a larger bucket lets messages through at any rate; a smaller one makes the kernel cut its packets
_QUEUE_LATENCY = "100ms"
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kmg]?)bit")
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_MIN_RATE = 10**6  # less than a packet per scheduler tick is no network any more
_MAX_HOSTS = 250  # addresses in the network
_START = "mount -t tmpfs shm /dev/shm && ip link set lo up && echo ready && exec cat"


@dataclass(frozen=True)
class DelaySwitch:
    """A program in place of the kernel's switch.

    Attributes:
        program: Executable of `delay_switch.cpp`.
        delay_ms: Time from one host to another, beside that of the rate.
        lost_share: Share of the packets that are dropped, at random.
    """

    program: Path
    delay_ms: float
    lost_share: float = 0.0


@dataclass(frozen=True)
class Host:
    """One host.

    Attributes:
        address: On the link between the hosts.
        pid: Its first process, as seen from outside.
    """

    address: str
    pid: int

    def command(self, *command: str) -> list[str]:
        """Return the command line that runs a command on this host, seen as an ordinary child from outside."""
        return self._entering("--net", "--uts", "--ipc", "--mount", "--pid") + list(command)

    def launcher_command(self, *command: str) -> list[str]:
        """Return the one for a launcher: on this host's network, but able to enter the other hosts."""
        return self._entering("--net", "--uts", "--ipc") + list(command)

    def _entering(self, *spaces: str) -> list[str]:
        return ["nsenter", "--target", str(self.pid), *spaces, "--"]


@dataclass(frozen=True)
class Network:
    """Hosts that reach each other.

    Attributes:
        hosts: In the order of their addresses.
        rate_bits_per_s: Rate at which each may send, and receive, at once.
        remote_shell: A program that is called as `remote_shell ADDRESS COMMAND...`, like ssh.
        switch: The switch between them; None where links have a delay.
    """

    hosts: tuple[Host, ...]
    rate_bits_per_s: int
    remote_shell: Path
    switch: Host | None = None

    def places(self, ranks: int) -> str:
        """Return the hosts with an even share of the ranks each, as launchers take them."""
        return ",".join(f"{host.address}:{ranks // len(self.hosts)}" for host in self.hosts)

    def run_command(self, ranks: int) -> list[str]:
        """Return `ringtune run` on the first host, for ranks on all of them; a program's command is added to it."""
        run = (sys.executable, "-m", "ringtune.cli", "run", "-np", str(ranks), "--no-prefix-output")
        remote = ("-H", self.places(ranks), "--rsh", str(self.remote_shell))
        return self.hosts[0].launcher_command(*run, *remote)

    def set_rate(self, number: int, rate_bits_per_s: int) -> None:
        """Change the rate of one host's link in both directions, also while a job is on it.

        Args:
            number: Number of the host, from 0.
            rate_bits_per_s: New rate.

        Raises:
            RingtuneError: If links have a delay, or the kernel refuses.
        """
        if self.switch is None:
            raise RingtuneError("the rate of a link with a delay cannot be changed; make hosts without one")
        _shape(self.hosts[number], self.switch, f"port{number}", rate_bits_per_s, "change")


def parse_rate(text: str) -> int:
    """Return bits per second.

    Args:
        text: Rate as `tc` writes it, such as `1gbit`.

    Raises:
        ConfigError: If it says none.
    """
    match = _RATE.fullmatch(text.strip().lower())
    rate = round(float(match[1]) * _FACTORS[match[2]]) if match else 0
    if rate < _MIN_RATE:
        raise ConfigError(f"--link {text!r} is no rate of at least 1mbit; give one such as 100mbit, 1gbit or 2.5gbit")
    return rate


def check_hosts(count: int, ranks: int) -> None:
    """Raise `ConfigError` where there cannot be so many hosts with as many ranks each."""
    if not 2 <= count <= _MAX_HOSTS:
        raise ConfigError(f"--hosts {count}: there must be 2 to {_MAX_HOSTS}; leave it out for ranks on one host")
    if ranks % count:
        raise ConfigError(f"-np {ranks} cannot be divided evenly among --hosts {count}; give a multiple of it")
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        raise ConfigError(f"--hosts needs {', '.join(missing)}; install iproute2 and util-linux")
    if os.geteuid() != 0:
        raise ConfigError("--hosts makes network namespaces, which takes root; run it as root, as in a container")


@contextmanager
def joined_hosts(count: int, rate_bits_per_s: int, delay_switch: DelaySwitch | None = None) -> Iterator[Network]:
    """Make hosts, and take them away again.

    Args:
        count: Number of hosts.
        rate_bits_per_s: Rate of each host's link, in each direction.
        delay_switch: Switch that holds packets up; None: the kernel's.

    Raises:
        RingtuneError: If the kernel refuses a step.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ringtune-hosts-")))
        if delay_switch is None:
            switch = _start_first_process(stack, "switch")
            _on(switch, "ip", "link", "add", "switch", "type", "bridge")
            _on(switch, "ip", "link", "set", "switch", "up")
        names = [f"host{number}" for number in range(count)]
        hosts = tuple(
            Host(f"10.77.0.{number + 1}", _start_first_process(stack, name).pid) for number, name in enumerate(names)
        )
        if delay_switch is not None:
            _start_switch(stack, delay_switch, hosts, rate_bits_per_s)
        for number, host in enumerate(hosts):
            if delay_switch is None:
                _plug_in(host, switch, f"port{number}", rate_bits_per_s)
            _on(host, "hostname", names[number])
            _on(host, "ip", "address", "add", f"{host.address}/24", "dev", INTERFACE)
            mtu = MTU_BYTES if delay_switch is None else DELAYED_MTU_BYTES
            _on(host, "ip", "link", "set", INTERFACE, "mtu", str(mtu), "up")
        between = switch if delay_switch is None else None
        yield Network(hosts, rate_bits_per_s, _write_remote_shell(folder, hosts), between)


def _plug_in(host: Host, switch: Host, port: str, rate_bits_per_s: int) -> None:
    peer = ("peer", "name", INTERFACE, "netns", str(host.pid))
    _on(switch, "ip", "link", "add", port, "mtu", str(MTU_BYTES), "type", "veth", *peer, "mtu", str(MTU_BYTES))
    _on(switch, "ip", "link", "set", port, "master", "switch", "up")
    _shape(host, switch, port, rate_bits_per_s, "add")


def _shape(host: Host, switch: Host, port: str, rate_bits_per_s: int, verb: str) -> None:
    shape = ("tbf", "rate", f"{rate_bits_per_s}bit", "burst", _BURST, "latency", _QUEUE_LATENCY)
    for end, interface in ((host, INTERFACE), (switch, port)):
        _on(end, "tc", "qdisc", verb, "dev", interface, "root", *shape)


def _start_switch(stack: ExitStack, switch: DelaySwitch, hosts: Sequence[Host], rate_bits_per_s: int) -> None:
    pids = [str(host.pid) for host in hosts]
    delay_us = round(switch.delay_ms * 1000)
    links = (str(delay_us), str(rate_bits_per_s), str(switch.lost_share))
    command = [str(switch.program), INTERFACE, *links, *pids]
    _start(stack, command, "no delay can be made between hosts")


def _start_first_process(stack: ExitStack, name: str) -> Host:
    """Start the first process of a host that has no links yet."""
    spaces = ("--net", "--uts", "--ipc", "--pid", "--mount-proc", "--fork", "--kill-child")
    command = ["unshare", *spaces, "sh", "-c", _START]
    child = _start(stack, command, f"no namespaces can be made for {name}; --hosts needs all of root's rights")
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    return Host("", int(children.read_text(encoding="ascii").split()[0]))


def _start(stack: ExitStack, command: Sequence[str], failure: str) -> Child:
    """Start a process that ends with its standard input, and return when it reports that it is ready."""
    child = Child(command, stdin=PIPE)
    stack.callback(child.end, 0)
    if child.next_line() != b"ready":
        child.close_stdin()
        child.ends_within(None)
        child.end(0)
        raise RingtuneError(f"{failure}: {child.said.strip()}")
    return child


def _on(host: Host, *command: str) -> None:
    finished = subprocess.run(host.launcher_command(*command), capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise RingtuneError(f"the hosts cannot be made: `{' '.join(command)}` failed: {finished.stderr.strip()}")


def _write_remote_shell(folder: Path, hosts: Sequence[Host]) -> Path:
    cases = "".join(f'  {host.address}) exec {" ".join(host.command("sh"))} -c "$*";;\n' for host in hosts)
    script = folder / "remote_shell"
    text = f'#!/bin/sh\nhost=$1\nshift\ncase $host in\n{cases}  *) echo "no host $host" >&2; exit 1;;\nesac\n'
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    return script
