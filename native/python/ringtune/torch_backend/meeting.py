# SPDX-License-Identifier: Apache-2.0
"""Worlds of process groups: the ranks of a group find their meeting in torch's store.

The default process group shares its world with the front ends: whichever is there first joins it, the other finds it.
Other groups have worlds of their own, under the same settings.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch.distributed.distributed_c10d import PrefixStore

from ringtune.errors import CollectiveTimeout
from ringtune.meeting.bootstrap import environment
from ringtune.meeting.bootstrap.exchange import arrange
from ringtune.meeting.bootstrap.torch_store import StoreExchange
from ringtune.meeting.rendezvous.place import Place
from ringtune.session.session import SESSION
from ringtune.settings.settings import Settings
from ringtune.world.world import INIT_LIMIT_S, World, join_part, join_world

TIMEOUT_NAME = "RINGTUNE_TIMEOUT_S"
_FIRST_LOOK_S = 0.001  # between two looks into a store that other threads use; doubled up to the next one
_LONGEST_LOOK_S = 0.05


@dataclass(frozen=True)
class Member:
    """This rank's part in a process group, as torch describes it.

    Attributes:
        store: Torch's store for this group alone.
        rank: This rank in the group.
        size: Number of ranks.
        timeout_s: The group's time limit.
        global_ranks: Ranks of the group as the default group numbers them; empty for the default group itself.
    """

    store: Any
    rank: int
    size: int
    timeout_s: float
    global_ranks: tuple[int, ...] = ()


class PatientExchange:
    """Implements `RankChannel` by looks into a store that other threads use meanwhile; a wait there would stop them."""

    def __init__(self, store: Any, rank: int, is_over: Any) -> None:
        """Wrap a store.

        Args:
            store: Torch's store; keys are this meeting's.
            rank: 0 or 1.
            is_over: Function that returns whether the meeting is needed no more.
        """
        self._store = store
        self._rank = rank
        self._is_over = is_over

    def gather(self, text: str) -> Sequence[str]:
        """See `RankChannel`; raises `CollectiveTimeout` if the meeting is needed no more."""
        self._store.set(f"site/{self._rank}", text)
        return () if self._rank != 0 else (text, self._get("site/1"))

    def spread(self, text: str) -> str:
        """See `RankChannel`; raises `CollectiveTimeout` if the meeting is needed no more."""
        if self._rank != 0:
            return self._get("answer")
        self._store.set("answer", text)
        return text

    def _get(self, key: str) -> str:
        pause_s = _FIRST_LOOK_S
        while not self._store.check([key]):
            if self._is_over():
                raise CollectiveTimeout("the process group was left before the other rank came to send or receive")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
        return bytes(self._store.get(key)).decode()


@dataclass(frozen=True)
class Membership:
    """A process group's world, and how it is left.

    Attributes:
        world: The world.
        is_shared: Whether it is the session's, which the front ends use as well.
    """

    world: World
    is_shared: bool

    def leave(self) -> None:
        """Leave the world, unless a front end has asked for it, too."""
        if not self.is_shared:
            SESSION.leave(self.world)
        elif SESSION.is_initialized and SESSION.require() is self.world:
            SESSION.release()


def join(member: Member) -> Membership:
    """Join the world of a process group; all of its ranks call this.

    Raises:
        ConfigError: If a setting is wrong, here or on another rank.
        CollectiveTimeout: If a rank did not come in time.
        PeerLostError: If a rank ended meanwhile.
    """
    met = member.store.add(f"ringtune/met/{member.rank}", 1)  # a store may serve one group after the other
    member = replace(member, store=PrefixStore(f"ringtune/{met}", member.store))
    if member.global_ranks or not _may_share(member):
        return Membership(_join_apart(member), is_shared=False)
    if not SESSION.is_initialized:
        SESSION.lend(partial(_find, member), _with_timeout(environment(), member.timeout_s))
    return Membership(SESSION.require(), is_shared=True)


def join_pair(member: Member, world: World, peers: tuple[int, int], is_over: Any) -> World:
    """Join a world of two ranks of a group; both call this, in threads of their own.

    Args:
        member: This rank's part in the group.
        world: The group's world.
        peers: The two ranks in the group, the lower one first.
        is_over: Function that returns whether the meeting is needed no more.

    Raises:
        CollectiveTimeout: If the meeting is needed no more.
        PeerLostError: If the other rank ended meanwhile.
    """
    own = peers.index(member.rank)
    store = PrefixStore(f"pair/{peers[0]}-{peers[1]}", member.store)
    place = arrange(Place(own, 2, 0, "torch.distributed"), PatientExchange(store, own, is_over))
    return SESSION.keep(join_part(world, place, peers))


def _may_share(member: Member) -> bool:
    """Agree on whether the session's world, there already or still to be joined, can be the group's on every rank."""
    world = SESSION.require() if SESSION.is_initialized else None
    own = "none"
    if world is not None:
        own = "same" if (world.rank, world.size) == (member.rank, member.size) else "other"
    if member.size == 1:
        return own != "other"
    place = Place(member.rank, member.size, 0, "torch.distributed")
    exchange = StoreExchange(PrefixStore("share", member.store), place, _limit_s(member))
    answers = set(exchange.gather(own))
    return exchange.spread("yes" if answers in ({"none"}, {"same"}) else "no") == "yes"


def _join_apart(member: Member) -> World:
    world = SESSION.require() if SESSION.is_initialized else None
    if world is not None and member.global_ranks and set(member.global_ranks) <= set(range(world.size)):
        settings = Settings.from_given({**world.settings.given, TIMEOUT_NAME: member.timeout_s})
        place = _find(member, _limit_s(member))
        part = join_part(replace(world, settings=settings), place, member.global_ranks)
    else:
        environ = _with_timeout(environment(), member.timeout_s)
        part = join_world({**environ, "AUTOTUNE": "0"}, partial(_find, member), lambda _: None, is_first=False)
    return SESSION.keep(part)


def _find(member: Member, limit_s: float) -> Place:
    """Return this rank's place, from a meeting in the group's store."""
    place = Place(member.rank, member.size, 0, "torch.distributed")
    if member.size == 1:
        return place
    return arrange(place, StoreExchange(PrefixStore("meeting", member.store), place, limit_s))


def _with_timeout(environ: Mapping[str, str], timeout_s: float) -> dict[str, str]:
    """Return the environment with the group's time limit, unless the user has set one."""
    return {TIMEOUT_NAME: f"{timeout_s:g}", **environ}


def _limit_s(member: Member) -> float:
    return min(INIT_LIMIT_S, member.timeout_s)
