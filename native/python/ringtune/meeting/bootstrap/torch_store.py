# SPDX-License-Identifier: Apache-2.0
"""A place given by torch: an initialised process group's, or the one of torchrun's agent; both by way of a store."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ringtune.errors import CollectiveTimeout, ConfigError
from ringtune.meeting.rendezvous.channel import Deadline
from ringtune.meeting.rendezvous.place import Place

from .exchange import arrange
from .identity import Identity, rank_in_words
from .integers import MAX_WORLD_SIZE, read_integer

AGENT_NAME = "TORCHELASTIC_USE_AGENT_STORE"
_AGENT_NAMES = (
    AGENT_NAME,
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
)


class StoreExchange:
    """Implements `RankChannel` by a store of torch's, which is then trusted with the job key."""

    def __init__(self, store: Any, place: Place, limit_s: float) -> None:
        """Wrap a store.

        Args:
            store: Store with torch's `set(key, text)`, `wait(keys, timeout)` and `get(key)`; keys are this meeting's.
            place: Place of this rank.
            limit_s: Longest wait for the other ranks.
        """
        self._store = store
        self._place = place
        self._deadline = Deadline.after(limit_s)

    def gather(self, text: str) -> Sequence[str]:
        """See `RankChannel`; raises `CollectiveTimeout` if a rank did not come in time."""
        self._store.set(f"site/{self._place.rank}", text)
        if self._place.rank != 0:
            return ()
        return [self._get(f"site/{rank}", rank) for rank in range(self._place.world_size)]

    def spread(self, text: str) -> str:
        """See `RankChannel`; raises `CollectiveTimeout` if rank 0 did not come in time."""
        if self._place.rank != 0:
            return self._get("answer", 0)
        self._store.set("answer", text)
        return text

    def _get(self, key: str, rank: int) -> str:
        try:
            self._store.wait([key], timedelta(seconds=max(self._deadline.remaining_s(), 0.001)))
        except RuntimeError as error:  # torch's DistStoreError, for a passed deadline and a lost store alike
            raise CollectiveTimeout(
                f"rank {rank} did not come to the meeting in torch's store within {self._deadline.limit_s:.0f} s "
                f"({error}); check that it calls init(), or raise RINGTUNE_TIMEOUT_S"
            ) from error
        return bytes(self._store.get(key)).decode()


def find_in_process_group(_environ: Mapping[str, str], _generation: int, limit_s: float) -> Place | None:
    """Return the place in torch's process group, or None where the job has initialised none; does not import torch."""
    if not has_process_group():
        return None
    distributed: Any = sys.modules["torch.distributed"]
    place = Place(distributed.get_rank(), distributed.get_world_size(), 0, "torch.distributed")
    if place.world_size == 1:
        return place
    return _arrange_in(distributed.PrefixStore("ringtune", _store_of_world(distributed)), place, limit_s)


def _arrange_in(store: Any, place: Place, limit_s: float, towards: str = "") -> Place:
    """Return the place, completed by a meeting in a store.

    The store counts the meetings of each rank. A process that has met others elsewhere, as a pooled one has, and a new
    one begin a new store alike.
    """
    distributed: Any = sys.modules["torch.distributed"]  # whoever has a store of torch's has imported it
    generation = store.add(f"{place.world_size}/met/{place.rank}", 1) - 1
    meeting = distributed.PrefixStore(f"{place.world_size}/{generation}", store)
    return arrange(replace(place, generation=generation), StoreExchange(meeting, place, limit_s), towards=towards)


def has_process_group() -> bool:
    """Return whether this process has initialised a process group of torch's; does not import torch."""
    distributed: Any = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and bool(distributed.is_initialized())


def _store_of_world(distributed: Any) -> Any:
    """Return the default process group's store; older versions of PyTorch have no public way to it."""
    group = distributed.group.WORLD
    if hasattr(group, "get_group_store"):
        return group.get_group_store()
    return distributed.distributed_c10d._get_default_store()  # noqa: SLF001


def identify(environ: Mapping[str, str]) -> Identity | None:
    """Return the identity of torchrun's place; None where it did not start the job, or for one rank."""
    if environ.get(AGENT_NAME) != "True" or environ.get("WORLD_SIZE") == "1":
        return None
    text = "\n".join(("torchrun", *(environ.get(name, "") for name in _AGENT_NAMES)))
    rank, world_size = environ.get("RANK", "?"), environ.get("WORLD_SIZE", "?")
    return Identity(text, rank_in_words(rank, world_size), _AGENT_NAMES, (AGENT_NAME, "RANK", "WORLD_SIZE"))


def find_in_agent_store(environ: Mapping[str, str], _generation: int, limit_s: float) -> Place | None:
    """Return torchrun's place, or None where it did not start this process.

    Its agent's store is used as a client: the port is the agent's and is never bound here.
    """
    if environ.get(AGENT_NAME) != "True":
        return None
    world_size = read_integer(environ, "WORLD_SIZE", low=1, high=MAX_WORLD_SIZE)
    place = Place(read_integer(environ, "RANK", low=0, high=world_size - 1), world_size, 0, "torchrun")
    if world_size == 1:
        return place
    host, port = environ.get("MASTER_ADDR", ""), read_integer(environ, "MASTER_PORT", low=1, high=65_535)
    run_id, restarts = environ.get("TORCHELASTIC_RUN_ID", ""), environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = _agent_store(host, port, f"ringtune/{run_id}/{restarts}", limit_s)
    return _arrange_in(store, place, limit_s, towards=host)


def _agent_store(host: str, port: int, prefix: str, limit_s: float) -> Any:
    import torch.distributed  # noqa: PLC0415  (only a job under torchrun pays for it)

    distributed: Any = torch.distributed
    try:
        store = distributed.TCPStore(
            host, port, is_master=False, timeout=timedelta(seconds=limit_s), wait_for_workers=False
        )
    except distributed.DistError as error:
        raise ConfigError(
            f"torchrun's store at {host}:{port} (MASTER_ADDR, MASTER_PORT) cannot be reached: {error}"
        ) from error
    return distributed.PrefixStore(prefix, store)
