# SPDX-License-Identifier: Apache-2.0
"""A process group out of torch's options."""

from typing import Any

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
    member = Member(
        store=options.store,
        rank=options.group_rank,
        size=options.group_size,
        timeout_s=options.timeout.total_seconds(),
        global_ranks=tuple(options.global_ranks_in_group),
    )
    return RingtuneGroup(member)
