# SPDX-License-Identifier: Apache-2.0
"""`RayExecutor`, with Horovod's names and meanings: ranks are actors in a placement group of a Ray cluster."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from types import TracebackType
from typing import Any

import ray
from ray.exceptions import RayActorError
from ray.util.placement_group import get_current_placement_group

from ringtune.errors import ConfigError
from ringtune.launch.environment import forwarded_settings
from ringtune.meeting.bootstrap import environment

from .errors import WorkerLostError
from .outcomes import TeamMember, results_of
from .placement import Placement, Team
from .settings import RaySettings, gpus_of, limits_of
from .worker import RankWorker

_END_S = 5.0  # time for the workers' exit handlers; what is left then is killed


class RayExecutor:
    """Runs functions on ranks that are Ray actors; the functions call `init()` of their front end.

    The actors and their objects live from `start()` to `shutdown()`. `with RayExecutor(...) as executor:` shuts it down
    at the end. Ranks of a node are neighbours, and this process's settings (`AUTOTUNE*`, `RINGTUNE_*`, `HOROVOD_*`) go
    to all.
    """

    def __init__(
        self,
        settings: Any = None,
        num_workers: int | None = None,
        num_hosts: int | None = None,
        num_workers_per_host: int = 1,
        cpus_per_worker: float = 1,
        *,
        use_gpu: bool = False,
        gpus_per_worker: int | None = None,
        use_current_placement_group: bool = True,
    ) -> None:
        """Describe the job; `start()` starts it.

        Args:
            settings: Limits of the start: the result of `create_settings`, or None for the defaults.
            num_workers: Number of ranks, packed on as few nodes as Ray can; or else `num_hosts`.
            num_hosts: Number of nodes, each with `num_workers_per_host` ranks.
            num_workers_per_host: Ranks on each node; with `num_hosts` only.
            cpus_per_worker: CPUs that Ray reserves for each rank.
            use_gpu: Whether each rank needs a GPU. Ranks of a node see all of its GPUs that the job has, in the order
                of local ranks: `torch.cuda.set_device(hvd.local_rank())`.
            gpus_per_worker: GPUs of each rank; 1 by default.
            use_current_placement_group: Whether an executor that is made inside a placement group, as in a trial of
                Ray Tune, places its ranks there. Otherwise, and outside of any, it makes one of its own.

        Raises:
            ConfigError: If the arguments contradict each other.
        """
        self._limits = limits_of(settings)
        workers, hosts = _numbers(num_workers, num_hosts, num_workers_per_host)
        self._team = Team(workers, cpus_per_worker, gpus_of(use_gpu, gpus_per_worker, "gpus_per_worker"), hosts)
        if cpus_per_worker < 0 or not self._team.resources:
            raise ConfigError(f"cpus_per_worker={cpus_per_worker} is not possible; allowed: over 0, or 0 with use_gpu")
        self._uses_current = use_current_placement_group
        self._placement: Placement | None = None
        self._members: list[TeamMember] = []
        self._calls: list[Any] = []  # references of calls that may be under way

    @classmethod
    def create_settings(
        cls,
        timeout_s: float = RaySettings.timeout_s,
        ssh_identity_file: str | None = None,
        ssh_str: str | None = None,
        placement_group_timeout_s: float = RaySettings.placement_group_timeout_s,
        nics: Any = None,
    ) -> RaySettings:
        """Return settings for an executor.

        Args:
            timeout_s: Longest wait, in seconds, for the workers' processes once they have places.
            ssh_identity_file: Accepted for Horovod's sake: no ssh is used, so that it is not read.
            ssh_str: Accepted likewise; it is written nowhere.
            placement_group_timeout_s: Longest wait, in seconds, for places in the cluster.
            nics: Accepted likewise: ranks take the interface that has the node's address in Ray.
        """
        del ssh_identity_file, ssh_str, nics
        return RaySettings(timeout_s, placement_group_timeout_s)

    @property
    def workers(self) -> list[Any]:
        """Ray's handles of the actors, by rank; empty before `start()`."""
        return [member.actor for member in self._members]

    def start(
        self,
        executable_cls: Callable[..., Any] | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
        extra_env_vars: Mapping[str, Any] | None = None,
    ) -> None:
        """Find places for the workers, start them, and make the user's object on each.

        Args:
            executable_cls: Class of an object that lives on each rank, for `execute`; it may call `init()`.
            executable_args: Its positional arguments.
            executable_kwargs: Its keyword arguments.
            extra_env_vars: Environment variables of the ranks, on top of this process's settings.

        Raises:
            ConfigError: If it is started already, or a given placement group is too small.
            PlacementTimeoutError: If the cluster has no room, or a worker does not start, in time.
            WorkerLostError: If a worker ends meanwhile.
            Exception: The constructor's own error, as Ray gives it.
        """
        if self._members:
            raise ConfigError("the executor is started already; call shutdown() before start()")
        extra = {name: str(value) for name, value in (extra_env_vars or {}).items()}
        variables = {**forwarded_settings(environment()), **extra}
        current = get_current_placement_group() if self._uses_current else None
        self._placement = Placement.within(self._team, self._limits.placement_group_timeout_s, current)
        try:
            self._start_members(self._placement, variables)
            args, kwargs = tuple(executable_args or ()), dict(executable_kwargs or {})
            results_of(self._members, self._submit("start_executable", executable_cls, args, kwargs))
        except BaseException:
            self.shutdown()
            raise

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> list[Any]:
        """Call a function on every rank, and return its results by rank.

        Args:
            fn: The function; Ray's serialization takes it there.
            args: Its positional arguments, the same on every rank.
            kwargs: Its keyword arguments.

        Raises:
            ConfigError: If the executor is not started.
            Exception: The exception of the first rank that raised one, as Ray gives it.
            WorkerLostError: If a worker's process or node ended.
            EngineError: If a collective failed and no rank says why.
        """
        return results_of(self._members, self.run_remote(fn, args, kwargs))

    def run_remote(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> list[Any]:
        """Call a function on every rank, and return Ray's references to the results at once; see `run`.

        `ray.get` of them raises the failure that comes first, which may be another rank's `PeerLostError`.
        """
        return self._submit("run", fn, tuple(args or ()), dict(kwargs or {}))

    def execute(self, fn: Callable[[Any], Any]) -> list[Any]:
        """Call a function with the user's object on every rank, and return its results by rank; see `run`."""
        return results_of(self._members, self._submit("execute", fn))

    def execute_single(self, fn: Callable[[Any], Any]) -> Any:
        """Call a function with the user's object on rank 0 alone, and return its result; see `run`."""
        self._require_started()
        chief = self._members[:1]
        references = [chief[0].actor.execute.remote(None, 0, fn)]
        self._calls = [*self._under_way(), *references]
        return results_of(chief, references)[0]

    def shutdown(self) -> None:
        """End the workers and give their resources back; idempotent.

        Workers without a call under way leave their world and run their exit handlers first; others are killed.
        """
        members, self._members = self._members, []
        placement, self._placement = self._placement, None
        if members and not self._under_way():
            ends = [member.actor.leave_world.remote() for member in members]
            ends += [member.actor.__ray_terminate__.remote() for member in members]
            ray.wait(ends, num_returns=len(ends), timeout=_END_S)
        self._calls = []
        for member in members:
            ray.kill(member.actor)
        if placement is not None:
            placement.close()

    def __enter__(self) -> "RayExecutor":  # noqa: PYI034  (typing has Self from Python 3.11 on)
        """Return the executor; `start()` starts it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Shut down."""
        self.shutdown()

    def _start_members(self, placement: Placement, variables: Mapping[str, str]) -> None:
        """Start the actors and give them ranks, so that those of a node are neighbours."""
        actors = placement.start(RankWorker, variables)
        members: list[TeamMember] = []
        try:
            references = [actor.facts.remote() for actor in actors]
            ready, missing = ray.wait(references, num_returns=len(references), timeout=self._limits.timeout_s)
            if missing:
                raise placement.unanswered(len(missing), self._limits.timeout_s)
            try:
                facts = ray.get(ready)
            except RayActorError as error:
                raise WorkerLostError(f"a worker ended while it started: {error}", None) from error
            by_reference = dict(zip(ready, facts, strict=True))
            members = [TeamMember(actor, by_reference[ref]) for actor, ref in zip(actors, references, strict=True)]
        finally:
            if not members:
                for actor in actors:
                    ray.kill(actor)
        self._members = by_node(members)
        if self._team.gpus:
            self._share_gpus()

    def _share_gpus(self) -> None:
        """Let each worker see all of the job's GPUs on its node, its own at the place of its local rank."""
        for _, group in groupby(self._members, key=lambda member: member.facts.node):
            neighbours = list(group)
            visible = ",".join(gpu for member in neighbours for gpu in member.facts.gpus)
            for member in neighbours:
                member.actor.set_variables.remote({"CUDA_VISIBLE_DEVICES": visible})

    def _submit(self, method: str, *args: Any) -> list[Any]:
        """Submit a call to every worker, behind the meeting that it needs, and wait for none of it."""
        self._require_started()
        sites = [member.actor.site.remote() for member in self._members]
        point = self._members[0].actor.open_meeting.remote(*sites)
        shared = [ray.put(argument) for argument in args]
        references = [
            getattr(member.actor, method).remote(point, rank, *shared) for rank, member in enumerate(self._members)
        ]
        self._calls = [*self._under_way(), *references]
        return references

    def _under_way(self) -> list[Any]:
        """Return the references of calls that have not ended."""
        if not self._calls:
            return []
        _, pending = ray.wait(self._calls, num_returns=len(self._calls), timeout=0, fetch_local=False)
        return list(pending)

    def _require_started(self) -> None:
        if not self._members:
            raise ConfigError("the executor is not started; call start() first")


def by_node(members: Sequence[TeamMember]) -> list[TeamMember]:
    """Return workers in the order of their ranks: those of a node, and of nodes that share memory, side by side."""
    hosts = list(dict.fromkeys(member.facts.host for member in members))
    nodes = list(dict.fromkeys(member.facts.node for member in members))
    return sorted(members, key=lambda member: (hosts.index(member.facts.host), nodes.index(member.facts.node)))


def _numbers(workers: int | None, hosts: int | None, per_host: int) -> tuple[int, int | None]:
    """Return the number of workers, and that of nodes if it was given."""
    if (workers is None) == (hosts is None):
        raise ConfigError(
            f"RayExecutor(num_workers={workers}, num_hosts={hosts}) is not possible; give the number of ranks as "
            "num_workers, or as num_hosts and num_workers_per_host"
        )
    given = {"num_workers": workers, "num_hosts": hosts, "num_workers_per_host": per_host}
    for name, value in given.items():
        if value is not None and value < 1:
            raise ConfigError(f"{name}={value} is not possible; allowed: 1 or more")
    return (workers, None) if hosts is None and workers is not None else ((hosts or 1) * per_host, hosts)
