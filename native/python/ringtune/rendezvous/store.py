# SPDX-License-Identifier: Apache-2.0
"""Rank 0's address and the job key by way of a key-value store of torch's, which is then what is trusted."""

import secrets
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ringtune.errors import CollectiveTimeout, ConfigError

from .channel import Deadline
from .place import Place, host_identity

KEY_BYTES = 32


def meet_in_store(store: Any, place: Place, limit_s: float) -> Place:
    """Exchange what the meeting needs and return the completed place.

    Every rank says which host it is on and reads what all others said, so that all find the same conflict at once:
    an abstract socket cannot be reached from another host.

    Args:
        store: With torch's `set(key, text)`, `wait(keys, timeout)` and `get(key)`; the keys are this meeting's alone.
        place: Without address and job key.
        limit_s: How long to wait for the other ranks.

    Raises:
        ConfigError: If ranks run on several hosts.
        CollectiveTimeout: If a rank did not come in time.
    """
    deadline = Deadline.after(limit_s)
    store.set(f"host/{place.rank}", host_identity())
    if place.rank == 0:
        store.set("job_key", secrets.token_hex(KEY_BYTES))
        store.set("address", f"ringtune-{secrets.token_hex(16)}")
    hosts = [_get(store, f"host/{rank}", f"rank {rank}", deadline) for rank in range(place.world_size)]
    for rank, host in enumerate(hosts):
        if host != hosts[0]:
            raise ConfigError(
                f"rank {rank} runs on another host, or in another process-id namespace, than rank 0 ({host} and "
                f"{hosts[0]}, as boot id / namespace); in this version all ranks must share one"
            )
    address = _get(store, "address", "rank 0", deadline)
    return replace(place, address=address, job_key=bytes.fromhex(_get(store, "job_key", "rank 0", deadline)))


def _get(store: Any, key: str, who: str, deadline: Deadline) -> str:
    try:
        store.wait([key], timedelta(seconds=max(deadline.remaining_s(), 0.001)))
    except RuntimeError as error:  # torch's DistStoreError, for a passed deadline and a lost store alike
        raise CollectiveTimeout(
            f"{who} did not come to the meeting in torch's store within {deadline.limit_s:.0f} s ({error}); check "
            "that it calls init(), or raise RINGTUNE_TIMEOUT_S"
        ) from error
    return bytes(store.get(key)).decode()
