# SPDX-License-Identifier: Apache-2.0
"""Settings of the executors, with Horovod's names: limits for places and for the workers' start, and GPUs."""

import dataclasses
from typing import Any

from ringtune.errors import ConfigError

TIMEOUT_S = 120.0
PLACEMENT_TIMEOUT_S = 100.0


@dataclasses.dataclass
class RaySettings:
    """Limits of `start()`, as `RayExecutor.create_settings` returns them.

    Attributes:
        timeout_s: Longest wait, in seconds, for the workers' processes once they have places.
        placement_group_timeout_s: Longest wait, in seconds, for places in the cluster.
    """

    timeout_s: float = TIMEOUT_S
    placement_group_timeout_s: float = PLACEMENT_TIMEOUT_S


def limits_of(settings: Any) -> RaySettings:
    """Return the limits that settings hold.

    Args:
        settings: Any object with these attributes, Horovod's settings too; None for the defaults.

    Raises:
        ConfigError: If a limit is not over 0 s.
    """
    defaults = RaySettings()
    values = {field.name: _limit(settings, field.name, defaults) for field in dataclasses.fields(RaySettings)}
    return RaySettings(**values)


def _limit(settings: Any, name: str, defaults: RaySettings) -> float:
    value = getattr(settings, name, None)
    limit_s = getattr(defaults, name) if value is None else value
    if isinstance(limit_s, bool) or not isinstance(limit_s, int | float) or not limit_s > 0:
        raise ConfigError(f"settings.{name}={limit_s!r} is not possible; allowed: a number of seconds over 0")
    return float(limit_s)


def gpus_of(use_gpu: bool, each: int | None, name: str) -> int:
    """Return the number of GPUs of a worker.

    Args:
        use_gpu: Whether it needs any.
        each: Number that was given; None for one.
        name: Name of that argument.

    Raises:
        ConfigError: If the two contradict each other.
    """
    if each is not None and each < 1:
        raise ConfigError(f"{name}={each} is not possible; allowed: 1 or more, with use_gpu=True")
    if each is not None and not use_gpu:
        raise ConfigError(f"{name}={each} needs use_gpu=True")
    return (each or 1) if use_gpu else 0
