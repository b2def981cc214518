# SPDX-License-Identifier: Apache-2.0
"""`RingtuneConfig`: Ray Train's workers find their places in the world, without torch's process group.

`hvd.init()` in the training function meets the other workers. After a failure Ray starts a new group of workers, of
another size if the `ScalingConfig` allows one, and that group meets under a key of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import GetTimeoutError
from ray.train.backend import Backend, BackendConfig

from ringtune.launch.environment import forwarded_settings
from ringtune.meeting.bootstrap import environment

from .meeting import enter_meeting, leave_world, meeting_site, open_meeting

_END_S = 5.0  # time for workers to leave their world before Ray kills them


def _own_settings() -> dict[str, str]:
    return forwarded_settings(environment())


@dataclass
class RingtuneConfig(BackendConfig):  # type: ignore[misc]  # Ray has no types where the types are checked
    """Backend of a `DataParallelTrainer`, or `torch_config` of a `TorchTrainer`: ringtune's engine, no process group.

    Attributes:
        variables: Environment variables of the workers; by default the settings `AUTOTUNE*`, `RINGTUNE_*` and
            `HOROVOD_*` of the process that makes the config.
        backend: Name of the backend, which `TorchTrainer` reads.
    """

    variables: Mapping[str, str] = field(default_factory=_own_settings)
    backend: str = "ringtune"

    @property
    def backend_cls(self) -> type:
        """Ray's class for the start and the end of a group of workers."""
        return _RingtuneBackend

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for Ray's dashboard; variables may be secret."""
        return {"backend": self.backend}


class _RingtuneBackend(Backend):  # type: ignore[misc]  # as above
    share_cuda_visible_devices = True  # torch.cuda.set_device(hvd.local_rank()) works, as under Horovod

    def on_start(self, worker_group: Any, backend_config: RingtuneConfig) -> None:
        """Prepare the meeting of a new group of workers; the order is that of Ray's ranks."""
        sites = worker_group.execute(meeting_site)
        point = worker_group.execute_single(0, open_meeting, sites)
        variables = dict(backend_config.variables)
        ray.get(
            [
                worker_group.execute_single_async(rank, enter_meeting, point, rank, variables)
                for rank in range(len(sites))
            ]
        )

    def on_shutdown(self, worker_group: Any, backend_config: RingtuneConfig) -> None:
        """Have the workers leave their world, so that the tuner's results are kept; Ray ends them afterwards."""
        del backend_config
        try:
            ray.get(worker_group.execute_async(leave_world), timeout=_END_S)
        except GetTimeoutError:
            return
