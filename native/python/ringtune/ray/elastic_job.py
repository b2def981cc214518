# SPDX-License-Identifier: Apache-2.0
"""One run of an elastic job on Ray: workers are started where nodes have room, and replaced when they are lost.

The driver serves the rendezvous and looks after the actors in one loop. A worker reports its end over its connection to
the rendezvous and by the result of its call; the first successful result ends the hiring.
"""

import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ringtune.errors import DismissedError, EngineError
from ringtune.launch.elastic.answers import Answer, FoundHost
from ringtune.launch.elastic.host_table import Cooldown, HostTable
from ringtune.meeting.bootstrap.explicit import JOB_KEY_NAME
from ringtune.meeting.bootstrap.joining import RENDEZVOUS_NAME, WORKER_ID_NAME
from ringtune.meeting.bootstrap.tls_variables import read_tls
from ringtune.meeting.rendezvous.server import Patience, RendezvousServer
from ringtune.system.console import write_line

from .elastic_roster import RayRoster
from .errors import ElasticJobError
from .placement import Team, cluster_text
from .worker import RankWorker

KEY_BYTES = 32
TURN_S = 0.1  # longest time after which results of workers are looked for
LOOK_S = 1.0  # time between two looks at the cluster's nodes


@dataclass(frozen=True)
class ElasticLimits:
    """Limits of an elastic job.

    Attributes:
        min_workers: Smallest number of workers that may train.
        max_workers: Largest number.
        reset_limit: Most meetings after the first; None for any number.
        elastic_timeout_s: Longest wait for the smallest number of workers.
        start_timeout_s: Longest wait for a worker's process on a node that has room for it.
        cooldown: Pauses of a node on which a worker has failed.
    """

    min_workers: int
    max_workers: int
    reset_limit: int | None
    elastic_timeout_s: float
    start_timeout_s: float
    cooldown: Cooldown


@dataclass(frozen=True)
class _Hired:
    """A worker that was started."""

    name: str
    node: str
    actor: Any
    started: Any  # reference to the first answer of its process
    since_s: float


class ElasticJob:
    """A run of one function. Used once, by one thread."""

    def __init__(
        self, limits: ElasticLimits, need: Team, variables: Mapping[str, str], function: Callable[[], Any]
    ) -> None:
        """Open the rendezvous.

        Args:
            limits: Limits of the job.
            need: Resources of one worker.
            variables: Environment of the workers.
            function: The function that every worker calls.
        """
        self._limits = limits
        self._need = need
        self._function = ray.put(function)
        key = secrets.token_bytes(KEY_BYTES)
        self._roster = RayRoster(limits.min_workers, limits.max_workers)
        patience = Patience(meeting_s=limits.elastic_timeout_s)
        address, tls = ray.util.get_node_ip_address(), read_tls(variables)
        self._server = RendezvousServer(key, address, self._roster, patience=patience, tls=tls)
        self._variables = {**variables, RENDEZVOUS_NAME: self._server.address, JOB_KEY_NAME: key.hex()}
        self._nodes = HostTable(limits.cooldown)
        self._crew: dict[Any, _Hired] = {}  # by the reference of the call
        self._results: dict[str, Any] = {}  # by the worker's name
        self._errors: list[Exception] = []  # the user's own
        self._hired = 0
        self._looked_s = -math.inf
        self._idle_since_s = time.monotonic()

    def run(self) -> list[Any]:
        """Run to the end, and return the results of the workers that have returned, by their last ranks.

        Raises:
            ElasticJobError: If there were not enough workers in time, or the world changed too often.
            Exception: The user's own exception, as Ray gives it, if no worker is left that could go on.
        """
        try:
            while True:
                self._server.serve_ready(TURN_S)
                self._reap()
                if self._results and not self._crew:
                    ranks = self._roster.ranks
                    in_order = sorted(self._results, key=lambda name: ranks.get(name, math.inf))
                    return [self._results[name] for name in in_order]
                self._check()
                if not self._results and time.monotonic() - self._looked_s >= LOOK_S:
                    self._hire()
        finally:
            for hired in self._crew.values():
                ray.kill(hired.actor)
            self._server.close()

    def _reap(self) -> None:
        """Take the results of the workers that have ended."""
        ended = []
        if self._crew:
            ended, _ = ray.wait(list(self._crew), num_returns=len(self._crew), timeout=0, fetch_local=False)
        for reference in ended:
            hired = self._crew.pop(reference)
            try:
                self._results[hired.name] = ray.get(reference)
            except Exception as error:  # noqa: BLE001  (a user's function may raise anything)
                self._take_failure(hired, error)
            ray.kill(hired.actor)
        if self._results:  # those that wait for a world would wait in vain
            for reference, hired in list(self._crew.items()):
                if hired.name not in self._roster.ranks:
                    ray.kill(self._crew.pop(reference).actor)

    def _take_failure(self, hired: _Hired, error: Exception) -> None:
        cause = error.cause if isinstance(error, RayTaskError) else None
        if isinstance(cause, DismissedError):
            return
        if cause is None:
            self._expel(hired)
        elif not isinstance(cause, EngineError):
            self._errors.append(error)
        words = str(cause if cause is not None else error).splitlines()
        pauses = self._nodes.blame([hired.node], time.monotonic())
        pause = "".join(f"; its node gets no new worker for {pause_s:g} s" for pause_s in pauses.values())
        write_line(f"ringtune: warning: worker {hired.name} failed: {words[0] if words else 'no reason'}{pause}")

    def _expel(self, hired: _Hired) -> None:
        """Part the others from a worker that Ray has given up but whose process lives on, as one whose raylet died."""
        for worker in self._server.workers:
            if worker.worker_id == hired.name:
                self._server.dismiss(worker, f"Ray has lost the node of worker {hired.name}")
                self._server.announce(removed=[str(worker)])

    def _check(self) -> None:
        """Raise the error that ends the job without a result, if there is one."""
        now_s = time.monotonic()
        if self._crew:
            self._idle_since_s = now_s
        if self._errors and not self._crew:
            raise self._errors[0]
        limit_s = self._limits.elastic_timeout_s
        if self._server.has_given_up or now_s - self._idle_since_s > limit_s:
            raise ElasticJobError(
                f"there were not {self._limits.min_workers} workers within {limit_s:g} s (elastic_timeout); "
                f"{len(self._crew)} are started, nodes: {self._nodes.describe(now_s)}; {cluster_text()}"
            ) from (self._errors[0] if self._errors else None)
        resets = self._roster.meetings - 1
        if self._limits.reset_limit is not None and resets > self._limits.reset_limit:
            raise ElasticJobError(
                f"the world changed {resets} times, more often than reset_limit={self._limits.reset_limit} allows"
            ) from (self._errors[0] if self._errors else None)

    def _hire(self) -> None:
        """Start workers on nodes that have room; give those up that do not start."""
        now_s = self._looked_s = time.monotonic()
        self._nodes.note(Answer(tuple(self._found())))
        for reference, hired in list(self._crew.items()):
            is_late = now_s - hired.since_s > self._limits.start_timeout_s
            if is_late and not ray.wait([hired.started], timeout=0)[0]:
                del self._crew[reference]
                ray.kill(hired.actor)
                self._nodes.blame([hired.node], now_s)
        for host in self._nodes.available(now_s):
            busy = sum(hired.node == host.name for hired in self._crew.values())
            room = min(host.slots - busy, self._limits.max_workers - len(self._crew))
            for _ in range(room):
                self._start(host.name, now_s)
        self._roster.started = max(len(self._crew), 1)

    def _start(self, node: str, now_s: float) -> None:
        name = f"{self._hired}"
        self._hired += 1
        strategy = NodeAffinitySchedulingStrategy(node, soft=False)
        options = {"num_cpus": self._need.cpus, "num_gpus": self._need.gpus, "scheduling_strategy": strategy}
        actor = ray.remote(RankWorker).options(**options).remote({**self._variables, WORKER_ID_NAME: name})
        started = actor.facts.remote()
        self._crew[actor.train.remote(self._function)] = _Hired(name, node, actor, started, now_s)

    def _found(self) -> list[FoundHost]:
        """Return the nodes that live, with the number of workers that each has resources for."""
        needs = self._need.resources.items()
        return [
            FoundHost(node["NodeID"], int(min(node["Resources"].get(name, 0) // amount for name, amount in needs)))
            for node in ray.nodes()
            if node["Alive"]
        ]
