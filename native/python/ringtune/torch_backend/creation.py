# SPDX-License-Identifier: Apache-2.0
"""A process group out of torch's options; and torch's functions that serve Gloo and NCCL alone."""

from datetime import timedelta
from functools import wraps
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from .compiled import form, tell_once
from .group import RingtuneGroup
from .meeting import Member


def create_group(options: Any, backend_options: Any) -> RingtuneGroup:
    """Return a new process group, once all of its ranks have met.

    Args:
        options: Torch's `_DistributedBackendOptions`.
        backend_options: Options of the program for this backend, which has none.

    Raises:
        ConfigError: If a setting is wrong, here or on another rank.
        CollectiveTimeout: If a rank did not come in time.
        PeerLostError: If a rank ended meanwhile.
    """
    del backend_options
    _serve_monitored_barrier()
    _serve_time_limits()
    member = Member(
        store=options.store,
        rank=options.group_rank,
        size=options.group_size,
        timeout_s=options.timeout.total_seconds(),
        global_ranks=tuple(options.global_ranks_in_group),
    )
    group = form().group_class(member)
    tell_once(group.world.console, form().note)
    return group


def _serve_monitored_barrier() -> None:
    """Let `torch.distributed.monitored_barrier`, which refuses every backend but Gloo, take groups of this one."""
    original: Any = distributed_c10d.monitored_barrier
    if hasattr(original, "serves_ringtune"):
        return

    @wraps(original)
    def monitored_barrier(
        group: Any = None,
        timeout: timedelta | float | None = None,
        wait_all_ranks: bool = False,  # noqa: FBT002  (torch's signature)
    ) -> None:
        found = dist.group.WORLD if group is None else group
        if not isinstance(found, RingtuneGroup):
            original(group, timeout, wait_all_ranks)
            return
        limit = timedelta(seconds=timeout) if isinstance(timeout, float) else timeout
        found.monitored_barrier(limit, wait_all_ranks)

    monitored_barrier.serves_ringtune = True  # type: ignore[attr-defined]
    dist.monitored_barrier = distributed_c10d.monitored_barrier = monitored_barrier


def _serve_time_limits() -> None:
    """Let torch's `_set_pg_timeout`, which knows the classes of Gloo and NCCL alone, set that of groups of this one."""
    original: Any = distributed_c10d._set_pg_timeout  # noqa: SLF001  (programs call it, such as torchtitan)
    if hasattr(original, "serves_ringtune"):
        return

    @wraps(original)
    def set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
        found = dist.group.WORLD if group is None else group
        if isinstance(found, RingtuneGroup):
            found.set_timeout(timeout)
            if not found.has_other_backends():
                return
        original(timeout, group)

    set_pg_timeout.serves_ringtune = True  # type: ignore[attr-defined]
    distributed_c10d._set_pg_timeout = set_pg_timeout  # noqa: SLF001
