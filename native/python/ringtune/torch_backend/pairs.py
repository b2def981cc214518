# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks of a group: each pair has a world of its own, met when the first message is due.

A message is an all-to-all of bytes in the pair's world, so its receiver need not know its size. A group of two ranks is
its own pair. Messages of one direction and tag are matched in their order.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import torch

from ringtune.errors import ConfigError, RingtuneError
from ringtune.session.session import SESSION
from ringtune.session.submissions import start_alltoall
from ringtune.torch.buffers import operand_of
from ringtune.world.handles import Handle
from ringtune.world.world import World

from .meeting import Member, join_pair
from .memory import dense, flat, offered, room_for, write_back

_LOOK_S = 0.0001  # between two looks at the senders of a receive from any source


class Link:
    """This rank's way to one other rank."""

    def __init__(self, own: int) -> None:
        """Begin before the two have met.

        Args:
            own: This rank in the pair, 0 or 1.
        """
        self.own = own
        self._lock = threading.Lock()  # guards all below
        self._world: World | None = None
        self._error: RingtuneError | None = None
        self._waiting: list[Message] = []
        self._sent: Counter[str] = Counter()
        self.posted: dict[int, deque[Message]] = {}
        self.is_ready = threading.Event()

    def number(self, name: str) -> int:
        """Return how many messages of that name were before."""
        with self._lock:
            self._sent[name] += 1
            return self._sent[name]

    def submit(self, message: "Message") -> None:
        """Give a message to the pair's engine, now or when the two have met."""
        with self._lock:
            if self._world is None and self._error is None:
                self._waiting.append(message)
                return
        message.start(self._world, self._error)

    def settle(self, world: World | None, error: RingtuneError | None) -> None:
        """Take the world of the pair, or the reason why there is none."""
        with self._lock:
            self._world, self._error = world, error
            waiting, self._waiting = self._waiting, []
            for message in waiting:
                message.start(world, error)
        self.is_ready.set()

    def leave(self) -> None:
        """Leave the pair's world."""
        if self._world is not None:
            SESSION.leave(self._world)


class Message:
    """One message on its way; see `works.Pending`."""

    def __init__(self, link: Link, name: str, sent: torch.Tensor | None, room: torch.Tensor | None) -> None:
        """Describe it.

        Args:
            link: Way to the other rank.
            name: Name that both ranks use.
            sent: Flat bytes to send; None on the receiver.
            room: Flat bytes to receive into; None on the sender, and where the receiver gives them later.
        """
        self._link = link
        self._name = name
        self._sent = sent
        self._room = room
        self._handle: Handle | None = None
        self._error: RingtuneError | None = None
        self._taken: Any = None
        self._is_over = False
        self.deliver: Callable[[], None] | None = None

    def start(self, world: World | None, error: RingtuneError | None) -> None:
        """Begin, in the pair's world; or fail."""
        if world is None or error is not None:
            self._error = error
            return
        bytes_ = torch.empty(0, dtype=torch.uint8) if self._sent is None else self._sent
        splits = [0, 0]
        splits[1 - self._link.own] = bytes_.numel()
        output = None if self._room is None else offered(self._room)
        try:
            self._handle = start_alltoall(world, self._name, operand_of(bytes_), splits, self._take, output=output)
        except RingtuneError as failure:
            self._error = failure

    def poll(self) -> bool:
        """See `Pending`."""
        return self._is_over or self._error is not None or (self._handle is not None and self._handle.poll())

    def has_ended(self, limit_s: float) -> bool:
        """See `Pending`."""
        if self._is_over:
            return True
        begin_s = time.monotonic()
        if not self._link.is_ready.wait(limit_s) and self._error is None:
            return False
        if self._error is not None:
            raise self._error
        handle: Any = self._handle
        left_s = max(0.0, limit_s - (time.monotonic() - begin_s))
        self._is_over = handle.has_ended(left_s)
        if self._is_over and self.deliver is not None:
            self.deliver()
        return self._is_over

    def copy_to(self, room: torch.Tensor) -> None:
        """Put the received bytes into flat memory, unless they were received there.

        Raises:
            ConfigError: If it does not fit.
        """
        result = self._taken
        count = sum(result.rows)
        if count > room.numel():
            raise ConfigError(f"recv got {count} bytes for a tensor of {room.numel()} bytes")
        if count and result.memory.ctypes.data != room.data_ptr():
            room[:count].copy_(torch.from_numpy(result.memory))

    def _take(self, result: Any) -> None:
        self._taken = result


class AnySource:
    """A receive from whichever rank sends first; see `works.Pending`."""

    def __init__(self, candidates: dict[int, Message], take: Callable[[int, Message], None]) -> None:
        """Watch the next message of every rank.

        Args:
            candidates: Messages by rank.
            take: Called with the first that has come.
        """
        self._candidates = candidates
        self._take = take
        self._is_over = False

    def poll(self) -> bool:
        """See `Pending`."""
        return self._is_over or any(message.poll() for message in self._candidates.values())

    def has_ended(self, limit_s: float) -> bool:
        """See `Pending`."""
        end_s = time.monotonic() + limit_s
        while not self._is_over:
            for rank, message in self._candidates.items():
                if message.poll() and message.has_ended(limit_s):
                    self._is_over = True
                    self._take(rank, message)
                    return True
            if time.monotonic() >= end_s:
                return False
            time.sleep(_LOOK_S)
        return True


class Pairs:
    """The messages of one rank of a group."""

    def __init__(self, member: Member, world: World) -> None:
        """Serve a rank.

        Args:
            member: This rank's part in the group.
            world: The group's world.
        """
        self._member = member
        self._world = world
        self._lock = threading.Lock()  # guards _links
        self._links: dict[int, Link] = {}
        self._is_closed = False

    def send(self, tensor: torch.Tensor, peer: int, tag: int) -> Message:
        """Start to send a tensor."""
        link = self._link(peer)
        message = Message(link, self._name(link, self._member.rank, peer, tag), _bytes_of(dense(tensor)), None)
        link.submit(message)
        return message

    def receive(self, tensor: torch.Tensor, peer: int, tag: int) -> Message:
        """Start to receive into a tensor."""
        memory = room_for(tensor)
        room = _bytes_of(memory)
        link = self._link(peer)
        posted = link.posted.get(tag)
        if posted:  # a receive from any source has asked for it before
            message = posted.popleft()
        else:
            message = Message(link, self._name(link, peer, self._member.rank, tag), None, room)
            link.submit(message)

        def deliver() -> None:
            message.copy_to(room)
            write_back(tensor, memory)

        message.deliver = deliver
        return message

    def receive_any(self, tensor: torch.Tensor, tag: int, note: Callable[[int], None]) -> AnySource:
        """Start to receive into a tensor from whichever rank sends first.

        Args:
            tensor: The tensor.
            tag: Tag of the messages.
            note: Called with the rank that has sent.
        """
        memory = room_for(tensor)
        room = _bytes_of(memory)
        candidates: dict[int, Message] = {}
        for peer in range(self._member.size):
            if peer == self._member.rank:
                continue
            link = self._link(peer)
            posted = link.posted.setdefault(tag, deque())
            if not posted:
                message = Message(link, self._name(link, peer, self._member.rank, tag), None, None)
                posted.append(message)
                link.submit(message)
            candidates[peer] = posted[0]

        def take(peer: int, message: Message) -> None:
            self._link(peer).posted[tag].remove(message)
            message.copy_to(room)
            write_back(tensor, memory)
            note(peer)

        return AnySource(candidates, take)

    def close(self) -> None:
        """Leave the worlds of all pairs."""
        self._is_closed = True
        for link in self._links.values():
            if self._member.size > 2:
                link.leave()

    def _name(self, link: Link, source: int, target: int, tag: int) -> str:
        name = f"message {source}>{target} tag {tag}"
        return f"{name} #{link.number(name)}"

    def _link(self, peer: int) -> Link:
        if not 0 <= peer < self._member.size or peer == self._member.rank:
            raise ConfigError(f"rank {self._member.rank} cannot send to or receive from rank {peer}")
        with self._lock:
            link = self._links.get(peer)
            if link is None:
                pair = (min(peer, self._member.rank), max(peer, self._member.rank))
                link = self._links[peer] = Link(pair.index(self._member.rank))
                if self._member.size == 2:
                    link.settle(self._world, None)
                else:
                    threading.Thread(target=self._meet, args=(link, pair), name="ringtune-pair", daemon=True).start()
            return link

    def _meet(self, link: Link, pair: tuple[int, int]) -> None:
        try:
            world = join_pair(self._member, self._world, pair, lambda: self._is_closed)
        except RingtuneError as error:
            link.settle(None, error)
            return
        if self._is_closed:
            SESSION.leave(world)
        link.settle(world, None)


def _bytes_of(memory: torch.Tensor) -> torch.Tensor:
    return flat(memory).view(torch.uint8)
