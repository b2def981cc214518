# SPDX-License-Identifier: Apache-2.0
"""Random histories of elastic jobs over hosts with networks of their own, under the launcher and its host discovery.

`python -m tests.integration.elastic_host_histories --count 20` runs histories of consecutive seeds and prints a table.
"""

import json
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.elastic_histories import Event, tuning
from tests.integration.elastic_jobs import QUICK
from tests.integration.elastic_table import Struck, run_histories
from tests.integration.hosts import Host, enter_rsh, from_host, hosts, run_on
from tests.integration.jobs import Finished, Job, program, ringtune, started
from tests.integration.remote_shells import make_ssh_server, running

HOSTS = 3
SLOTS = 2
EPOCHS = 12
STEP_MS = 60.0
LIMIT_S = 8.0  # time limit of a collective: a stopped worker costs as much
SSH_PORT = 2222
DEADLINE_S = 300.0  # time limit of a history; a job that is not through by then hangs
KINDS = ("kill", "kill two", "stop", "cut off", "add", "remove", "flap", "garbage", "fail", "hang")
REPORT = re.compile(r"^\[\d+\] (\{.*\})$", re.MULTILINE)


@dataclass
class Run:
    """A history under way.

    Attributes:
        job: Job of the launcher.
        made: Hosts; the launcher is on the first.
        folder: Folder of the hosts file, the discovery's mode, and the workers' notes.
        drawn: Source of the choices.
        struck: Events that took place.
    """

    job: Job
    made: Sequence[Host]
    folder: Path
    drawn: random.Random
    struck: list[Struck]
    named: set[str] = field(default_factory=set)

    def count(self) -> int:
        """Return the number of steps that rank 0 has trained, those that were undone included."""
        steps = self.folder / "steps"
        return steps.stat().st_size if steps.exists() else 0

    def wait_for(self, count: int, end_s: float) -> bool:
        """Wait for a number of steps; return False if the job ends before."""
        while self.count() < count:
            if self.job.process.poll() is not None:
                return False
            if time.monotonic() > end_s:
                self.job.kill()
                raise AssertionError(f"no progress after {self.count()} steps\n{self.job.wait().text[-6000:]}")
            time.sleep(0.02)
        return True

    def name_hosts(self) -> None:
        """Write the hosts file that discovery prints."""
        name_hosts(self.folder, [host for host in self.made if host.name in self.named])

    def strike(self, kind: str) -> None:
        """Let an event happen, if it is possible and leaves a worker that has the state."""
        now_s = time.monotonic()
        others = [host for host in self.made[1:] if host.name in self.named]
        chosen = self.drawn.choice(others) if others else None
        if kind in {"garbage", "fail", "hang"}:
            has_happened = self._mislead(kind)
        elif kind == "add":
            has_happened = self._add()
        elif chosen is None:
            has_happened = False
        elif kind in {"remove", "flap"}:
            has_happened = self._remove(chosen, is_flap=kind == "flap")
        elif kind == "cut off":
            has_happened = self._cut_off(chosen)
        else:
            has_happened = self._hit(kind, others)
        if has_happened:
            self.struck.append(Struck(kind, now_s))

    def _add(self) -> bool:
        absent = [host.name for host in self.made if host.name not in self.named]
        if absent:
            self.named.add(self.drawn.choice(absent))
            self.name_hosts()
        return bool(absent)

    def _mislead(self, kind: str) -> bool:
        """Let the discovery script misbehave for a while."""
        (self.folder / "mode").write_text(kind, encoding="utf-8")
        time.sleep(2.0)
        (self.folder / "mode").write_text("good", encoding="utf-8")
        return True

    def _remove(self, host: Host, *, is_flap: bool) -> bool:
        self.named.discard(host.name)
        self.name_hosts()
        if is_flap:
            time.sleep(self.drawn.uniform(0.2, 3.0))
            self.named.add(host.name)
            self.name_hosts()
        return True

    def _cut_off(self, host: Host) -> bool:
        """Unplug a host, take it out of the list, and plug it in again."""
        host.set_link(is_up=False)
        self.named.discard(host.name)
        self.name_hosts()
        time.sleep(LIMIT_S)
        host.set_link(is_up=True)
        return True

    def _hit(self, kind: str, others: Sequence[Host]) -> bool:
        """Send a signal to workers of the other hosts; those of the launcher's host keep the state."""
        found = [(host, pid) for host in others for pid in self._pids(host)]
        count = 2 if "two" in kind else 1
        if len(found) < count:
            return False
        signal = "-STOP" if kind == "stop" else "-KILL"
        for host, pid in self.drawn.sample(found, count):
            run_on(host, ["sh", "-c", f"kill {signal} {pid} || true"])
        return True

    def _pids(self, host: Host) -> list[str]:
        """Return the process ids of a host's workers, as it counts itself."""
        find = "grep -la elastic_worke[r].py /proc/[0-9]*/cmdline 2>/dev/null || true"  # without finding itself
        return [line.split("/")[2] for line in run_on(host, ["sh", "-c", find]).split()]


def name_hosts(folder: Path, named: Sequence[Host]) -> None:
    """Write a hosts file in one move."""
    unfinished = folder / "hosts.unfinished"
    unfinished.write_text("".join(f"{host.address}:{SLOTS}\n" for host in named), encoding="utf-8")
    unfinished.replace(folder / "hosts")


@contextmanager
def reached(made: Sequence[Host], folder: Path, *, by_ssh: bool) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Make the other hosts reachable for the launcher; return its options, and changes of its environment.

    Args:
        made: Hosts; the launcher is on the first.
        folder: Folder for scripts and keys.
        by_ssh: Whether by a real SSH server on each host, or by a remote shell that enters its namespaces.
    """
    if not by_ssh:
        yield ["--rsh", enter_rsh(folder, *made)], {}
        return
    keys = folder / "ssh"
    keys.mkdir()
    server = make_ssh_server(keys, [host.address for host in made], SSH_PORT)
    with ExitStack() as stack:
        for host in made[1:]:
            stack.enter_context(running(server, host))
        yield server.options(), server.environ()


def run_history(seed: int, folder: Path, struck: list[Struck], *, by_ssh: bool = False) -> tuple[list[int], float]:
    """Run the history of a seed to its end; return the sizes of its worlds, and its seconds.

    Args:
        seed: The seed.
        folder: Folder for the files of its job.
        struck: Takes the events that take place.
        by_ssh: Whether the launcher reaches the hosts by ssh.

    Raises:
        AssertionError: If the job hangs or fails, or its workers end with different weights.
    """
    drawn = random.Random(seed)
    kinds = [KINDS[seed % len(KINDS)], *drawn.choices(KINDS, k=drawn.randint(1, 3))]
    events = [Event(kind, 10 + 12 * place) for place, kind in enumerate(kinds)]
    begin_s = time.monotonic()
    (folder / "mode").write_text("good", encoding="utf-8")
    script = (
        f"case $(cat {folder}/mode) in garbage) echo '@@ no host';; fail) exit 3;; hang) sleep 600;; "
        f"*) cat {folder}/hosts;; esac"
    )
    worker = program("elastic_worker", str(folder), str(EPOCHS), str(STEP_MS))
    with ExitStack() as stack:
        made = stack.enter_context(hosts(HOSTS))
        reach, changes = stack.enter_context(reached(made, folder, by_ssh=by_ssh))
        options = ["-np", "1", "--max-np", str(HOSTS * SLOTS), "--host-discovery-script", script]
        command = ringtune("run", *QUICK, *options, *reach, *worker)
        environ = {"RINGTUNE_TIMEOUT_S": str(LIMIT_S), **changes, **(tuning(folder) if seed % 3 == 0 else {})}
        named = {made[0].name, *(host.name for host in drawn.sample(made[1:], drawn.randint(1, 2)))}
        name_hosts(folder, [host for host in made if host.name in named])
        job = stack.enter_context(started(from_host(made[0], *command), environ))
        run = Run(job, made, folder, drawn, struck, named)
        end_s = begin_s + DEADLINE_S
        for event in events:
            if not run.wait_for(event.steps, end_s):
                break
            run.strike(event.kind)
        run.wait_for(sys.maxsize, end_s)
        finished = job.wait()
    return _worlds(finished), time.monotonic() - begin_s


def _worlds(finished: Finished) -> list[int]:
    assert 0 == finished.code, finished.text[-6000:]
    reports = [json.loads(line) for line in REPORT.findall(finished.stdout)]
    assert reports, finished.text[-6000:]
    assert 1 == len({report["digest"] for report in reports}), finished.text[-6000:]
    worlds: list[int] = reports[0]["worlds"]
    return worlds


def play(seed: int, folder: Path, struck: list[Struck]) -> str:
    """Run the history of a seed; return its line of the table."""
    worlds, seconds = run_history(seed, folder, struck)
    return f"{seconds:5.1f} s  {' '.join(map(str, worlds)):28s} {', '.join(event.kind for event in struck)}"


if __name__ == "__main__":
    sys.exit(run_histories(__doc__, play, count=20))
