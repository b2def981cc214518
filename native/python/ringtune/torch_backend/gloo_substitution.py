# SPDX-License-Identifier: Apache-2.0
"""Process groups of this backend where a program names Gloo, for tensors of the CPU: `RINGTUNE_TORCH_BACKEND=gloo`.

Torch makes every process group by one function. It gets another backend here; the group keeps the name that the
program gave, so that code which asks for "gloo" goes on. Loaded while torch is being imported, so it imports neither
torch nor the engine.
"""

from functools import wraps
from typing import Any

from ringtune.errors import ConfigError

from .registration import NAME, SUBSTITUTE_NAME

GLOO = "gloo"


def substitute(distributed: Any, chosen: str) -> None:
    """Let this backend serve the CPU wherever Gloo would, from now on.

    Args:
        distributed: Torch's module `distributed_c10d`.
        chosen: Value of the variable; checked with the first process group, not while torch is being imported.
    """
    original = distributed._new_process_group_helper  # noqa: SLF001  (there is no public place)
    if hasattr(original, "substitutes_gloo"):
        return

    @wraps(original)
    def make(size: int, rank: int, ranks: Any, backend: Any, *args: Any, **given: Any) -> Any:
        if chosen != GLOO:
            raise ConfigError(
                f"{SUBSTITUTE_NAME}={chosen!r} is not allowed; allowed: {GLOO}; without it torch is left alone"
            )
        served = served_backend(distributed, backend)
        if served is None:
            return original(size, rank, ranks, backend, *args, **given)
        group, store = original(size, rank, ranks, distributed.Backend(served), *args, **given)
        groups = distributed._world.pg_map  # noqa: SLF001
        if group in groups:  # else this rank is none of the group's
            groups[group] = (backend, groups[group][1])
            if not ranks and rank == 0:
                _say(served)
        return group, store

    make.substitutes_gloo = True  # type: ignore[attr-defined]
    distributed._new_process_group_helper = make  # noqa: SLF001


def served_backend(distributed: Any, backend: Any) -> str | None:
    """Return the backend of a process group with this one for the CPU; None where Gloo would not serve the CPU.

    Args:
        distributed: Torch's module `distributed_c10d`.
        backend: Backend as the program has given it: `gloo`, `cpu:gloo,cuda:nccl`, or `undefined` for none.
    """
    devices = dict(distributed.BackendConfig(distributed.Backend(backend)).get_device_backend_map())
    if devices.pop("cpu", None) != GLOO:
        return None
    if not distributed.torch.backends.cuda.is_built():
        devices = {device: other for device, other in devices.items() if other != GLOO}
    others = [f"{device}:{other}" for device, other in devices.items()]
    return ",".join([f"cpu:{NAME}", *others]) if others else NAME


def _say(served: str) -> None:
    """Print once, on rank 0, that the program does not run on Gloo; the engine is loaded by now."""
    from ringtune.meeting.bootstrap import environment  # noqa: PLC0415  (takes longer than torch's import may)
    from ringtune.system.console import LEVELS, Console  # noqa: PLC0415

    level = environment().get("RINGTUNE_LOG_LEVEL", "").lower()
    text = f"torch.distributed runs on {served} where this program names {GLOO} ({SUBSTITUTE_NAME}={GLOO})"
    Console(0, level if level in LEVELS else "info").info(text)
