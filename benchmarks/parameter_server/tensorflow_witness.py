# SPDX-License-Identifier: Apache-2.0
"""The second witness: TensorFlow's `ParameterServerStrategy` on the hosts of an arena, started and ended by us.

Its workers and servers never end by themselves. Every process of a trial runs on a host of the arena and is killed when
the trial is over, whichever way it went.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from ringtune.bench.network import Host
from ringtune.errors import RingtuneError

from .arena import REPOSITORY, Arena, clean_environment
from .interface_counters import bytes_in
from .role_program import Measured
from .trial import ONE_HOST, SERVER, WORKER, Role, Trial

PYTHON = REPOSITORY / ".venv-tensorflow" / "bin" / "python"
FIRST_PORT = 28_600
LIMIT_S = 120.0
_LINES_OF_ERROR = 15
_RANKS = REPOSITORY / "benchmarks" / "parameter_server" / "ranks"


def missing() -> str:
    """Return why there is no second witness here, or nothing."""
    return (
        "" if PYTHON.exists() else f"TensorFlow is not measured: no {PYTHON.parents[1].name}; `make setup-tensorflow`"
    )


def measure(arena: Arena, trial: Trial) -> Mapping[str, Measured]:
    """Run a trial, and return what its hosts and its coordinator have measured.

    Raises:
        RingtuneError: If a process fails, or does not end.
    """
    folder = arena.new_folder()
    workers = [arena.role(trial, WORKER, number, folder) for number in range(trial.workers)]
    servers = [arena.role(trial, SERVER, number, folder) for number in range(trial.servers)]
    places = _addresses(arena, trial, workers + servers)
    cluster = {"worker": [places[role.name] for role in workers], "ps": [places[role.name] for role in servers]}
    with ExitStack() as stack:
        for kind, roles in (("worker", workers), ("ps", servers)):
            for role in roles:
                config = {"cluster": cluster, "task": {"type": kind, "index": role.number}}
                host = arena.host_of(role)
                _Program(stack, host, role.errors, "tensorflow_node.py", json.dumps(config)).line()
        arguments = (json.dumps(cluster), json.dumps(asdict(trial)))
        errors = folder / "coordinator.errors"
        coordinator = _Program(stack, arena.host_of(servers[0]), errors, "tensorflow_coordinator.py", *arguments)
        coordinator.line()
        before = _counters(arena, workers + servers)
        coordinator.answer()
        found = json.loads(coordinator.line())
        after = _counters(arena, workers + servers)
    shutil.rmtree(folder)
    carried = {name: [a - b for a, b in zip(after[name], before[name], strict=True)] for name in after}
    return _measured(trial, carried, found)


def _measured(trial: Trial, carried: Mapping[str, Sequence[int]], found: dict[str, Any]) -> dict[str, Measured]:
    """Return the measurements of all processes; the coordinator knows the workers' steps only together."""
    measured = {name: Measured(sent=sent, received=received) for name, (sent, received) in carried.items()}
    steps, rest = divmod(found["gradients"], trial.workers)
    for number in range(trial.workers):
        mine = steps + (number < rest)
        measured[f"{WORKER}{number}"].ends_s = [found["seconds"] * (step + 1) / mine for step in range(mine)]
    points = zip((0.0, found["seconds"]), (0, found["gradients"]), found["losses"], strict=True)
    measured[f"{WORKER}0"].curve = list(points)
    return measured


class _Program:
    """A program of TensorFlow's on a host, killed with its children at the end of the trial."""

    def __init__(self, stack: ExitStack, host: Host, errors: Path, program: str, *arguments: str) -> None:
        self._errors: IO[str] = stack.enter_context(errors.open("w+", encoding="utf-8"))
        self._name = program
        self._process = subprocess.Popen(
            host.command(str(PYTHON), str(_RANKS / program), *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**clean_environment(), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
            start_new_session=True,
        )
        stack.callback(self._end)

    def line(self) -> str:
        """Return the next line of its output.

        Raises:
            RingtuneError: If it ends before.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            said = "\n".join(self._errors.read().strip().splitlines()[-_LINES_OF_ERROR:])
            raise RingtuneError(f"{self._name} ended before its time\n{said}")
        return line.strip()

    def answer(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def _end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def _addresses(arena: Arena, trial: Trial, roles: list[Role]) -> Mapping[str, str]:
    """Return each process's address; ports are new for each trial."""
    found = {}
    for number, role in enumerate(roles):
        _, _, port = role.meeting.partition(":")
        host = "127.0.0.1" if trial.place == ONE_HOST else arena.host_of(role).address
        found[role.name] = f"{host}:{FIRST_PORT - int(port) % 1000 * len(roles) - number}"
    return found


def _counters(arena: Arena, roles: list[Role]) -> Mapping[str, tuple[int, int]]:
    """Return what the interface of each process's host has sent and received."""
    found = {}
    for role in roles:
        command = arena.host_of(role).command("cat", "/proc/net/dev")
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found[role.name] = bytes_in(text, role.interface)
    return found
