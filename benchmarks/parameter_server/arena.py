# SPDX-License-Identifier: Apache-2.0
"""Hosts of the comparison with a node on each, and one trial after another on them.

Hosts are namespaces: whatever becomes of this process, the kernel ends everything that runs on them, and removes their
links. One host is a namespace as well, so that it ends the same way.
"""

import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ringtune.bench.contestants import BenchEnvironment
from ringtune.bench.network import INTERFACE, Host, joined_hosts, parse_rate
from ringtune.errors import RingtuneError

from .role_program import Measured
from .trial import ONE_HOST, SERVER, WORKER, Role, Trial

REPOSITORY = Path(__file__).parents[2]
LOOPBACK = "lo"
LIMIT_S = 60.0
"""Time that a trial may take beyond its training, and a node to start."""
PORTS = range(29_600, 31_600)
"""Ports of worker 0, in turn: a closed one is not bound again at once. Nothing else runs in this network."""
_UNLIMITED = 10**12  # rate of the one host's link, which nothing uses
_LINES_OF_ERROR = 25


@dataclass(frozen=True)
class Node:
    """A node, and what it writes."""

    process: subprocess.Popen[str]
    errors: IO[str]

    def say(self, line: str) -> None:
        """Send it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def failure(self, text: str) -> RingtuneError:
        """Return an error with the end of what it has written."""
        self.errors.flush()
        self.errors.seek(0)
        said = "\n".join(self.errors.read().strip().splitlines()[-_LINES_OF_ERROR:])
        return RingtuneError(f"{text}\n{said}")


class Arena:
    """The hosts of one place. On one host all processes share a node; else each process has a host of its own.

    Attributes:
        hosts: The workers' hosts in their order, then the servers'.
    """

    def __init__(self, place: str, workers: int, hosts: Sequence[Host], nodes: Sequence[Node], folder: Path) -> None:
        """Take what `open_arena` has made."""
        self._place, self._workers, self._nodes, self._folder = place, workers, nodes, folder
        self.hosts = tuple(hosts)
        self._number = 0

    def measure(self, trial: Trial) -> Mapping[str, Measured]:
        """Run a trial on the nodes, and return what each process has measured, by name.

        Raises:
            RingtuneError: If a process fails, or does not end.
        """
        folder = self.new_folder()
        roles = [self.role(trial, WORKER, number, folder) for number in range(trial.workers)]
        roles += [self.role(trial, SERVER, number, folder) for number in range(trial.servers)]
        tasks: dict[int, list[str]] = {}
        for role in roles:
            tasks.setdefault(self._place_of(role), []).append(role.to_json())
        for number, texts in tasks.items():
            self._nodes[number].say(json.dumps(texts))
        _await([self._nodes[number] for number in tasks], f"{trial}", trial.seconds + LIMIT_S, _failed_children)
        measured = {role.name: Measured(**json.loads(role.result.read_text(encoding="ascii"))) for role in roles}
        shutil.rmtree(folder)
        return measured

    def new_folder(self) -> Path:
        """Make a folder for a trial."""
        self._number += 1
        folder = self._folder / f"trial{self._number}"
        folder.mkdir()
        return folder

    def role(self, trial: Trial, kind: str, number: int, folder: Path) -> Role:
        """Return a process's part."""
        port = PORTS[self._number % len(PORTS)]
        if self._place == ONE_HOST:
            return Role(trial, kind, number, folder, LOOPBACK, f"127.0.0.1:{port}")
        return Role(trial, kind, number, folder, INTERFACE, f"{self.hosts[0].address}:{port}")

    def host_of(self, role: Role) -> Host:
        """Return the host that a process runs on."""
        return self.hosts[self._place_of(role)]

    def _place_of(self, role: Role) -> int:
        if self._place == ONE_HOST:
            return 0
        return role.number + (self._workers if role.kind == SERVER else 0)


@contextmanager
def open_arena(place: str, workers: int, servers: int) -> Iterator[Arena]:
    """Make the hosts and start their nodes; take all away at the end.

    Args:
        place: `one host`, or the rate of each host's link.
        workers: Largest number of workers of a trial.
        servers: Largest number of servers.

    Raises:
        RingtuneError: If hosts cannot be made, or a node does not start.
    """
    count, rate = (1, _UNLIMITED) if place == ONE_HOST else (workers + servers, parse_rate(place))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ringtune-servers-")))
        network = stack.enter_context(joined_hosts(count, rate))
        nodes = [_start_node(stack, host, folder / f"errors{n}") for n, host in enumerate(network.hosts)]
        _await(nodes, "the start of the nodes", LIMIT_S, lambda line: "" if line == "ready" else f"it said {line!r}")
        yield Arena(place, workers, network.hosts, nodes, folder)


def clean_environment() -> dict[str, str]:
    """Return the variables of every process of a trial: one thread each, and none of an engine or a launcher."""
    return {**BenchEnvironment(1, Path(), os.environ).cleaned, "PYTHONPATH": str(REPOSITORY)}


def _start_node(stack: ExitStack, host: Host, errors: Path) -> Node:
    writing = stack.enter_context(errors.open("w+", encoding="utf-8"))
    process = subprocess.Popen(
        host.command(sys.executable, "-m", "benchmarks.parameter_server.ranks.node"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=writing,
        text=True,
        env=clean_environment(),
        start_new_session=True,  # Ctrl-C is for us
    )
    stack.callback(_end, process)
    return Node(process, writing)


def _end(process: subprocess.Popen[str]) -> None:
    """End the entering process; the kernel ends what it has started when the host goes."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _failed_children(line: str) -> str:
    codes = json.loads(line)
    return f"exit codes {codes}" if any(codes) else ""


def _await(nodes: Sequence[Node], subject: str, limit_s: float, objection: Callable[[str], str]) -> None:
    """Wait for one line of every node, and raise at the first to which there is an objection."""
    end_s = time.monotonic() + limit_s
    with selectors.DefaultSelector() as waiting:
        for node in nodes:
            waiting.register(node.process.stdout or sys.stdin, selectors.EVENT_READ, node)
        while waiting.get_map():
            ready = waiting.select(max(0.0, end_s - time.monotonic()))
            if not ready:
                left = [key.data for key in waiting.get_map().values()]
                raise left[0].failure(f"{len(left)} nodes have not answered within {limit_s:g} s: {subject}")
            for key, _ in ready:
                line = key.data.process.stdout.readline()
                if not line or objection(line.strip()):
                    raise key.data.failure(f"failed: {subject}: {objection(line.strip()) if line else 'it ended'}")
                waiting.unregister(key.fileobj)
