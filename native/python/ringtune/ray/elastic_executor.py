# SPDX-License-Identifier: Apache-2.0
"""`ElasticRayExecutor`, with Horovod's names: ranks come and go with the nodes of a Ray cluster while a job trains."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ray.util import client

from ringtune.errors import ConfigError
from ringtune.launch.elastic.host_table import Cooldown
from ringtune.launch.environment import forwarded_settings
from ringtune.meeting.bootstrap import environment
from ringtune.meeting.bootstrap.integers import MAX_WORLD_SIZE

from .elastic_job import ElasticJob, ElasticLimits
from .placement import Team
from .settings import RaySettings, gpus_of

ELASTIC_TIMEOUT_S = 600.0


@dataclass
class ElasticRaySettings:
    """Settings of an `ElasticRayExecutor`; see its `create_settings`."""

    min_num_proc: int = 1
    max_num_proc: int | None = None
    reset_limit: int | None = None
    elastic_timeout: float = ELASTIC_TIMEOUT_S
    timeout_s: float = RaySettings.timeout_s
    cooldown_range: Sequence[float] | None = None


class ElasticRayExecutor:
    """Runs a training function on workers that Ray's nodes have room for; workers that are lost are replaced.

    The function calls `hvd.init()`, and trains in a function under `hvd.elastic.run`. Nodes that come are used, and
    those that go are done without. This program must run on a node of the cluster: the workers call it for their ranks.
    """

    def __init__(
        self,
        settings: ElasticRaySettings | None = None,
        use_gpu: bool = False,  # noqa: FBT002  (Horovod's signature)
        cpus_per_slot: float = 1,
        gpus_per_slot: int | None = None,
        env_vars: Mapping[str, Any] | None = None,
    ) -> None:
        """Describe the job.

        Args:
            settings: Limits of the job: the result of `create_settings`, or None for the defaults.
            use_gpu: Whether each worker needs a GPU. It sees its own alone: `torch.cuda.set_device(0)`.
            cpus_per_slot: CPUs of each worker.
            gpus_per_slot: GPUs of each worker; 1 by default.
            env_vars: Environment variables of the workers, on top of this process's settings.

        Raises:
            ConfigError: If the arguments contradict each other.
        """
        self._need = Team(1, cpus_per_slot, gpus_of(use_gpu, gpus_per_slot, "gpus_per_slot"))
        if cpus_per_slot < 0 or not self._need.resources:
            raise ConfigError(f"cpus_per_slot={cpus_per_slot} is not possible; allowed: over 0, or 0 with use_gpu")
        self._limits = _limits_of(settings or ElasticRaySettings())
        self._variables = {name: str(value) for name, value in (env_vars or {}).items()}

    @staticmethod
    def create_settings(  # noqa: PLR0917  (Horovod's signature)
        min_num_proc: int = 1,
        max_num_proc: int | None = None,
        reset_limit: int | None = None,
        elastic_timeout: float = ELASTIC_TIMEOUT_S,
        timeout_s: float = RaySettings.timeout_s,
        ssh_identity_file: str | None = None,
        nics: Any = None,
        min_np: int | None = None,
        max_np: int | None = None,
        cooldown_range: Sequence[float] | None = None,
        verbose: Any = None,
    ) -> ElasticRaySettings:
        """Return settings for an executor.

        Args:
            min_num_proc: Smallest number of workers that may train; with fewer, training waits.
            max_num_proc: Largest number; None for as many as there is room for.
            reset_limit: Most changes of the world, after which the job ends; None for any number.
            elastic_timeout: Longest wait, in seconds, for the smallest number of workers.
            timeout_s: Longest wait, in seconds, for a worker's process on a node that has room for it.
            ssh_identity_file: Accepted for Horovod's sake: no ssh is used.
            nics: Accepted likewise: workers take the interface that leads to the driver's node.
            min_np: Horovod's older name of `min_num_proc`.
            max_np: Horovod's older name of `max_num_proc`.
            cooldown_range: Shortest and longest pause, in seconds, of a node on which a worker has failed.
            verbose: Accepted likewise; each lost worker is reported.
        """
        del ssh_identity_file, nics, verbose
        smallest = min_num_proc if min_np is None else min_np
        largest = max_num_proc if max_np is None else max_np
        return ElasticRaySettings(smallest, largest, reset_limit, elastic_timeout, timeout_s, cooldown_range)

    def start(self) -> None:
        """Return at once: `run` starts the workers. Horovod's programs call it."""

    def run(self, worker_fn: Callable[[], Any]) -> list[Any]:
        """Call a function on every worker until it returns, and return the results by rank.

        The first worker that returns ends the job: others finish, and none is started any more.

        Args:
            worker_fn: The function; Ray's serialization takes it there.

        Raises:
            ConfigError: If this program is not on a node of the cluster, but connected to it by Ray Client.
            ElasticJobError: If there were not enough workers in time, or the world changed too often.
            Exception: The user's own exception, as Ray gives it, if it has ended all workers.
        """
        if client.ray.is_connected():
            raise ConfigError(
                "an elastic job's program must run on a node of the cluster, for its workers call it for their ranks; "
                "this one is connected by Ray Client (ray://). Submit it by `ray job submit`, or use RayExecutor"
            )
        variables = {**forwarded_settings(environment()), **self._variables}
        return ElasticJob(self._limits, self._need, variables, worker_fn).run()


def _limits_of(settings: ElasticRaySettings) -> ElasticLimits:
    smallest = settings.min_num_proc
    largest = MAX_WORLD_SIZE if settings.max_num_proc is None else settings.max_num_proc
    if not 1 <= smallest <= largest <= MAX_WORLD_SIZE:
        raise ConfigError(
            f"min_num_proc={smallest}, max_num_proc={settings.max_num_proc} is not possible; allowed: 1 or more, the "
            f"first not over the second, up to {MAX_WORLD_SIZE}"
        )
    for name in ("elastic_timeout", "timeout_s"):
        if not getattr(settings, name) > 0:
            raise ConfigError(f"{name}={getattr(settings, name)} is not possible; allowed: over 0 s")
    pauses = settings.cooldown_range
    if pauses is not None and not (len(pauses) == 2 and 0 <= pauses[0] <= pauses[1]):
        raise ConfigError(
            f"cooldown_range={pauses} is not possible; allowed: two numbers of seconds, the shorter first"
        )
    return ElasticLimits(
        smallest,
        largest,
        settings.reset_limit,
        settings.elastic_timeout,
        settings.timeout_s,
        Cooldown() if pauses is None else Cooldown(float(pauses[0]), float(pauses[1])),
    )
