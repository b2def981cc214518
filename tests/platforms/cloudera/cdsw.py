# SPDX-License-Identifier: Apache-2.0
"""Stand-in for Cloudera's module `cdsw`, which exists in their images alone: the documented calls of its workers.

The workers are real processes on other hosts. A process that sees all hosts, `workbench.Workbench`, starts them; this
module asks it over a socket.
"""

import json
import os
import socket
from typing import Any

SOCKET_NAME = "CDSW_STANDIN_SOCKET"


def launch_workers(  # noqa: PLR0917  (their signature)
    n: int,
    cpu: float,
    memory: float,
    nvidia_gpu: int = 0,
    kernel: str = "python3",
    script: str = "",
    code: str = "",
    env: dict[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Start workers and return them, each with `id`; they run a script of the project, or code."""
    request = {"n": n, "cpu": cpu, "memory": memory, "nvidia_gpu": nvidia_gpu, "kernel": kernel}
    workers: list[dict[str, Any]] = _ask("launch_workers", **request, script=script, code=code, env=env or {})
    return workers


def list_workers() -> list[dict[str, Any]]:
    """Return the workers of this session, each with `id`, `ip_address` and `status`."""
    workers: list[dict[str, Any]] = _ask("list_workers")
    return workers


def await_workers(ids: list[str], wait_for_completion: bool = True, timeout_seconds: float = 60) -> dict[str, Any]:  # noqa: FBT002
    """Wait until workers run, or have ended; return `workers`, and the ids of others as `failures`."""
    answer: dict[str, Any] = _ask(
        "await_workers", ids=ids, wait_for_completion=wait_for_completion, timeout_seconds=timeout_seconds
    )
    return answer


def stop_workers(*worker_ids: str) -> list[str]:
    """End workers and return their ids."""
    stopped: list[str] = _ask("stop_workers", ids=list(worker_ids))
    return stopped


def _ask(call: str, **arguments: Any) -> Any:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[SOCKET_NAME])
        with connection.makefile("rw") as stream:
            stream.write(json.dumps({"call": call, **arguments}) + "\n")
            stream.flush()
            return json.loads(stream.readline())["answer"]
