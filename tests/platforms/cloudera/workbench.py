# SPDX-License-Identifier: Apache-2.0
"""A project of Cloudera's workbench as its session and workers see it: engines with an address, one project folder.

The hosts are namespaces of this machine. A session's calls of `cdsw` come over a socket, for no host sees another's
processes. Every engine has a server for ssh on port 2222, as Cloudera's have.
"""

import json
import os
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.house.source_tree import REPOSITORY
from tests.integration.hosts import Host, hosts
from tests.integration.jobs import DEADLINE_S, Finished
from tests.integration.remote_shells import make_ssh_server, running
from tests.platforms.cloudera.cdsw import SOCKET_NAME

SSH_PORT = 2222
OWN_FOLDER = Path(__file__).parent


class Workbench:
    """Engines of one project: the session on the first host, workers on the others."""

    def __init__(self, project: Path, engines: Sequence[Host]) -> None:
        """Make the workbench; `workbench` makes its hosts."""
        self._project = project
        self._session, *self._free = engines
        self._master = self._session.address
        self._workers: dict[str, tuple[Host, subprocess.Popen[bytes]]] = {}
        self._lock = threading.Lock()

    def run_session(self, script: str) -> Finished:
        """Run a script of the project in the session to its end."""
        start_s = time.monotonic()
        finished = subprocess.run(
            self._on(self._session, sys.executable, script),
            env=self._environment({}),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Finished(finished.returncode, finished.stdout, finished.stderr, time.monotonic() - start_s)

    @contextmanager
    def ssh_servers(self) -> Iterator[None]:
        """Run a server for ssh on port 2222 of each worker's host, whose keys the project has, as Cloudera's have."""
        folder, own = self._project / ".ssh", self._project / "bin"
        folder.mkdir(mode=0o700)
        own.mkdir()
        server = make_ssh_server(folder, [engine.address for engine in self._free], SSH_PORT)
        ssh = own / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {server.folder}/ssh -i {server.identity} "$@"\n', encoding="utf-8")
        ssh.chmod(0o755)
        with ExitStack() as stack:
            for engine in self._free:
                stack.enter_context(running(server, engine))
            yield

    def output_of_workers(self) -> str:
        """Return the workers' output."""
        return "".join(path.read_text("utf-8", "replace") for path in sorted(self._project.glob("worker.*.log")))

    def answer(self, request: Mapping[str, Any]) -> Any:
        """Carry out a call of `cdsw`."""
        calls = {
            "launch_workers": self._launch,
            "list_workers": lambda _: [self._described(name) for name in self._workers],
            "await_workers": self._await,
            "stop_workers": self._stop,
        }
        return calls[request["call"]](request)

    def close(self) -> None:
        """End all workers."""
        for _, process in self._workers.values():
            process.kill()
            process.wait()

    def _launch(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        command = [sys.executable, request["script"]] if request["script"] else [sys.executable, "-c", request["code"]]
        return [self._described(self._start(command, request["env"])) for _ in range(request["n"])]

    def _start(self, command: Sequence[str], env: Mapping[str, str]) -> str:
        with self._lock:
            name, host = f"worker{len(self._workers)}", self._free.pop(0)
            with (self._project / f"worker.{name}.log").open("wb") as log:
                process = subprocess.Popen(
                    self._on(host, *command),
                    env=self._environment({**env, "CDSW_MASTER_IP": self._master}),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._workers[name] = (host, process)
        return name

    def _await(self, request: Mapping[str, Any]) -> dict[str, Any]:
        end_s = time.monotonic() + request["timeout_seconds"]
        failures = []
        for name in request["ids"]:
            process = self._workers[name][1]
            try:
                code = process.wait(max(0.0, end_s - time.monotonic())) if request["wait_for_completion"] else 0
            except subprocess.TimeoutExpired:
                code = 1
            if code:
                failures.append(name)
        return {"workers": [self._described(i) for i in request["ids"] if i not in failures], "failures": failures}

    def _stop(self, request: Mapping[str, Any]) -> list[str]:
        for name in request["ids"]:
            self._workers[name][1].kill()
        return list(request["ids"])

    def _described(self, name: str) -> dict[str, Any]:
        host, process = self._workers[name]
        status = "running" if process.poll() is None else "succeeded" if process.returncode == 0 else "failed"
        return {"id": name, "ip_address": host.address, "status": status, "app_url": ""}

    def _on(self, host: Host, *command: str) -> list[str]:
        """Return the command line that runs a command on a host, in the project's folder."""
        return host.command("sh", "-c", 'cd "$0" && exec "$@"', str(self._project), *command)

    def _environment(self, changes: Mapping[str, str]) -> dict[str, str]:
        """Return an engine's environment, without the test's own variables that concern ringtune."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        return {
            **kept,
            "PATH": f"{self._project}/bin:{Path(sys.executable).parent}:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join((str(OWN_FOLDER), str(REPOSITORY))),
            "OMP_NUM_THREADS": "1",
            "RINGTUNE_ALGORITHM_TABLE": "default",
            "AUTOTUNE_CACHE": "0",
            SOCKET_NAME: str(self._project / "cdsw.socket"),
            **changes,
        }


@contextmanager
def workbench(project: Path, workers: int) -> Iterator[Workbench]:
    """Make a project's engines and serve the calls of its session.

    Args:
        project: Folder of the project, which all engines see.
        workers: Largest number of workers.
    """
    with hosts(workers + 1) as engines:
        made = Workbench(project, engines)

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                answer = made.answer(json.loads(self.rfile.readline()))
                self.wfile.write(json.dumps({"answer": answer}).encode() + b"\n")

        with socketserver.ThreadingUnixStreamServer(str(project / "cdsw.socket"), Handler) as server:
            serving = threading.Thread(target=server.serve_forever)
            serving.start()
            try:
                yield made
            finally:
                made.close()
                server.shutdown()
                serving.join()
