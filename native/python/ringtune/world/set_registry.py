# SPDX-License-Identifier: Apache-2.0
"""Process sets: worlds of some of the ranks, each with an engine of its own, so that they run at the same time.

All ranks of the global world add and remove a set together: they compare their arguments through the global engine,
so that a difference is an error on every rank and not a hang.
"""

import json
import socket
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ringtune.errors import ConfigError, RingtuneError, error_from_name
from ringtune.meeting.rendezvous.address import Address, bound_address, listen
from ringtune.meeting.rendezvous.place import Place
from ringtune.meeting.rendezvous.proof import derived_key
from ringtune.world.world import World, join_part

GLOBAL_ID = 0
_UINT8 = 0  # the engine's number


class ProcessSet:
    """A set of ranks that run collectives among themselves: made anywhere, usable once it was added."""

    def __init__(self, ranks: Iterable[int] = ()) -> None:
        """Name the ranks.

        Args:
            ranks: Global ranks, in any order; the set's own ranks follow their ascending order.

        Raises:
            ConfigError: If they are no ranks, or one is named twice.
        """
        given = list(ranks)
        numbers = [int(rank) for rank in given if _is_rank(rank)]
        if len(set(numbers)) != len(given):
            raise ConfigError(f"ProcessSet({given!r}) is not possible; a set is of different ranks, each 0 or more")
        self._ranks: tuple[int, ...] | None = tuple(sorted(numbers))
        self._id: int | None = None
        self._own_rank: int | None = None
        self._world: World | None = None
        self._claims: dict[str, int] = {}  # how often each name was claimed

    @property
    def ranks(self) -> list[int] | None:
        """The global ranks, ascending; None after the set was removed."""
        return None if self._ranks is None else list(self._ranks)

    @property
    def process_set_id(self) -> int | None:
        """The set's number, 0 for the global one; None while it is not part of the running job."""
        return self._id

    @property
    def world(self) -> World:
        """This rank's membership; raises `ConfigError` if it is not included."""
        self._require_added()
        if self._world is None:
            raise ConfigError(f"rank {self._own_rank} is not in process set {self._id} of ranks {self.ranks}")
        return self._world

    def included(self) -> bool | None:
        """Return whether this rank is in the set; None before the set was added."""
        return None if self._id is None else self._world is not None

    def size(self) -> int | None:
        """Return the number of ranks; None before the set was added."""
        return None if self._id is None or self._ranks is None else len(self._ranks)

    def rank(self) -> int | None:
        """Return this rank's number inside the set; None before it was added, `ConfigError` if not included."""
        return None if self._id is None else self.world.rank

    def rank_of(self, global_rank: int) -> int:
        """Return a global rank's number inside the set: roots are named by global rank, as Horovod's are.

        Raises:
            ConfigError: If that rank is not in the set, or the set was not added.
        """
        self._require_added()
        if self._ranks is None or global_rank not in self._ranks:
            raise ConfigError(f"rank {global_rank} is not in process set {self._id} of ranks {self.ranks}")
        return self._ranks.index(global_rank)

    def attach(self, number: int, ranks: Sequence[int], own_rank: int, world: World | None) -> None:
        """Make the set usable.

        Args:
            number: Its id.
            ranks: Global ranks, ascending.
            own_rank: This process's global rank.
            world: Its membership, or None if it is not included.
        """
        self._id, self._ranks, self._own_rank, self._world = number, tuple(ranks), own_rank, world

    def detach(self) -> World | None:
        """Make the set unusable, keeping its ranks, and return the world that the caller is to shut down."""
        world, self._id, self._world = self._world, None, None
        self._claims.clear()
        return world

    def invalidate(self) -> None:
        """Forget everything, as happens to a set that was removed."""
        self._id = self._ranks = self._world = None
        self._claims.clear()

    def claim_name(self, name: str) -> str:
        """Return a name for good that no other caller has: the second claim of `x` gets `x#2`.

        Ranks that claim in one order get the same names. `shutdown()` frees them all.

        Args:
            name: Key of something that is submitted again and again.
        """
        unique = name
        while unique in self._claims:
            self._claims[name] += 1
            unique = f"{name}#{self._claims[name]}"
        self._claims[unique] = 1
        return unique

    def _require_added(self) -> None:
        if self._id is None:
            raise ConfigError(f"{self} is not part of the running job; pass it to init() or add_process_set()")

    def __deepcopy__(self, memo: dict[int, Any]) -> "ProcessSet":
        return self  # a copied module or optimizer runs its collectives in the same set

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self._id}, ranks={self.ranks})"

    __repr__ = __str__


class SetRegistry:
    """The process sets beside one global world. Used from the main thread, alike on all ranks."""

    def __init__(self, world: World, global_set: ProcessSet) -> None:
        """Begin with the set of all ranks.

        Args:
            world: The global one.
            global_set: The object that stands for it.
        """
        self._world = world
        self._global_set = global_set
        self._sets: dict[int, ProcessSet] = {}
        self._attempts = 0
        global_set.attach(GLOBAL_ID, range(world.size), world.rank, world)

    def add(self, process_set: ProcessSet) -> ProcessSet:
        """Make a set usable, on all ranks of the global world.

        Returns:
            The set.

        Raises:
            ConfigError: If ranks name different sets, the set exists, is empty or names a rank that is none.
            EngineError: If the world is lost.
        """
        self._attempts += 1
        number, ranks = self._attempts, process_set.ranks or []
        place = self._agreed_place(number, ranks, is_added=process_set.process_set_id is not None)
        part: World | None = None
        failure: RingtuneError | None = None
        try:
            part = None if place is None else join_part(self._world, place, ranks)
        except RingtuneError as error:
            failure = error
        self._conclude(number, part, failure)
        process_set.attach(number, ranks, self._world.rank, part)
        self._sets[number] = process_set
        return process_set

    def find(self, number: int) -> ProcessSet | None:
        """Return the set that has a number; None where there is none."""
        return self._global_set if number == GLOBAL_ID else self._sets.get(number)

    def remove(self, process_set: ProcessSet) -> bool:
        """Make a set unusable, on all ranks of the global world; its pending operations fail.

        Returns:
            Whether it was removed; the global set cannot be.

        Raises:
            ConfigError: If ranks name different sets, or the set was not added.
            EngineError: If the world is lost.
        """
        number = process_set.process_set_id
        if number == GLOBAL_ID:
            return False
        if number is None or self._sets.get(number) is not process_set:
            raise ConfigError(f"{process_set} is not part of the running job, so that it cannot be removed")
        messages = self._exchange(f"remove.{number}", {"number": number})
        _check_equal(messages, "number", "remove_process_set")
        del self._sets[number]
        part = process_set.detach()
        process_set.invalidate()
        if part is not None:
            part.shutdown()
        return True

    def close(self) -> None:
        """Shut every set down, the global one left to its owner; all become unusable."""
        sets, self._sets = self._sets, {}
        for process_set in sets.values():
            part = process_set.detach()
            if part is not None:
                part.shutdown()
        self._global_set.detach()

    def worlds(self) -> list[World]:
        """Return this rank's memberships beside the global one."""
        return [process_set.world for process_set in self._sets.values() if process_set.included()]

    def _agreed_place(self, number: int, ranks: list[int], *, is_added: bool) -> Place | None:
        """Compare all ranks' arguments, and return this rank's place in the new world; None if it has none."""
        problem = self._problem(ranks, is_added=is_added)
        is_member = problem is None and self._world.rank in ranks
        listener: socket.socket | None = None
        own: dict[str, Any] = {"ranks": ranks, "is_added": is_added}
        try:
            if is_member and len(ranks) > 1 and ranks[0] == self._world.rank:
                listener = listen(self._own_address(ranks))
                own["address"] = str(bound_address(listener))
            messages = self._exchange(f"add.{number}", own)
            _check_addition(messages, problem)
        except BaseException:
            if listener is not None:
                listener.close()
            raise
        address = messages[ranks[0]].get("address")
        return (
            None
            if not is_member
            else Place(
                rank=ranks.index(self._world.rank),
                world_size=len(ranks),
                generation=number,
                source="process set",
                address=None if address is None else Address.parse(address),
                job_key=derived_key(self._world.job_key, f"process set {number} {ranks}"),
                listener=listener,
            )
        )

    def _problem(self, ranks: list[int], *, is_added: bool) -> ConfigError | None:
        """Return why a set cannot be added; alike on ranks that name the same one."""
        if is_added:
            return ConfigError(f"the process set of ranks {ranks} was added before")
        if not ranks or ranks[-1] >= self._world.size:
            return ConfigError(
                f"a process set of ranks {ranks} is not possible; there are ranks 0 to {self._world.size - 1}"
            )
        for existing in (self._global_set, *self._sets.values()):
            if existing.ranks == ranks:
                return ConfigError(f"a process set of ranks {ranks} exists already: {existing}")
        return None

    def _own_address(self, ranks: list[int]) -> Address:
        hosts = self._world.layout.hosts
        is_one_host = all(hosts[rank] == hosts[ranks[0]] for rank in ranks)
        return Address.fresh_unix() if is_one_host else Address("tcp", self._world.interface)

    def _conclude(self, number: int, part: World | None, failure: RingtuneError | None) -> None:
        """Let all ranks know how it went; one failure is everybody's."""
        own = {} if failure is None else {"error": type(failure).__name__, "text": str(failure)}
        try:
            _check_outcome(self._exchange(f"added.{number}", own), failure)
        except BaseException:
            if part is not None:
                part.shutdown()
            raise

    def _exchange(self, name: str, own: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the messages of all ranks of the global world, in their order."""
        memory = np.frombuffer(json.dumps(own).encode(), dtype=np.uint8)
        engine = self._world.engine
        handle = engine.allgather_async(f"ringtune.process_set.{name}", memory.ctypes.data, memory.shape, _UINT8)
        result = engine.wait(handle)
        if result is None:
            raise RuntimeError("an allgather returned nothing")
        pieces = np.split(result.memory, np.cumsum(result.rows)[:-1])
        return [json.loads(piece.tobytes()) for piece in pieces]


def _is_rank(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0


def _check_addition(messages: list[dict[str, Any]], problem: ConfigError | None) -> None:
    for key in ("ranks", "is_added"):
        _check_equal(messages, key, "add_process_set")
    if problem is not None:
        raise problem


def _check_outcome(messages: list[dict[str, Any]], failure: RingtuneError | None) -> None:
    first = next((message for message in messages if "error" in message), None)
    if first is not None:
        raise failure or error_from_name(str(first["error"]), str(first.get("text")))


def _check_equal(messages: list[dict[str, Any]], key: str, call: str) -> None:
    for rank, message in enumerate(messages):
        if message.get(key) != messages[0].get(key):
            raise ConfigError(
                f"{call} got {key} {message.get(key)!r} on rank {rank} but {messages[0].get(key)!r} on rank 0; all "
                "ranks must add and remove the same process sets in the same order"
            )
