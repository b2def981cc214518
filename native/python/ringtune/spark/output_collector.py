# SPDX-License-Identifier: Apache-2.0
"""The driver's collector of output: writes the ranks' lines to the caller's streams while the job runs.

Ranks connect to it and prove that they hold its key, which is made for one job and travels with the function. Spark has
no channel of its own that goes this way before a task ends.
"""

import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TextIO

from ringtune.errors import RingtuneError
from ringtune.launch.rank_output import line_prefix
from ringtune.meeting.rendezvous.address import Address, bound_address, listen
from ringtune.meeting.rendezvous.admission import Caller, acceptor_of_members
from ringtune.meeting.rendezvous.channel import Channel, ChannelError
from ringtune.meeting.rendezvous.proof import NO_RANK, Membership
from ringtune.system.event_loop import EventLoop

PURPOSE = "output"
KEY_BYTES = 32
_TURN_S = 0.2
_DRAIN_S = 5.0  # time for what ranks sent last, once their job has ended


@dataclass(frozen=True)
class OutputTarget:
    """Destination of the ranks' output.

    Attributes:
        host: Name or address of the driver's host.
        port: Port of its collector.
        key: Secret of the collector.
        streams: Streams that are wanted: `stdout`, `stderr`.
    """

    host: str
    port: int
    key: bytes = field(repr=False)
    streams: tuple[str, ...]


class OutputCollector:
    """Context in which a thread collects the ranks' lines. Each begins with its rank, as `[3] `."""

    def __init__(self, host: str, streams: Mapping[str, TextIO], *, has_time: bool = False) -> None:
        """Listen on one interface.

        Args:
            host: Address of the driver's host, as the executors know it.
            streams: The caller's streams, by `stdout` and `stderr`.
            has_time: Whether each line begins with the time at which it came.

        Raises:
            ConfigError: If it cannot listen there.
        """
        key = secrets.token_bytes(KEY_BYTES)
        listener = listen(Address("tcp", host))
        self.target = OutputTarget(host, bound_address(listener).port, key, tuple(streams))
        self._streams = dict(streams)
        self._prefix_of = line_prefix(has_rank=True, has_time=has_time)
        self._rests: dict[tuple[int, str], str] = {}  # unfinished lines, by rank and stream
        self._channels: dict[int, Channel] = {}  # by rank
        self._loop = EventLoop()
        membership = Membership(NO_RANK, None, key)
        self._acceptor = acceptor_of_members(self._loop, listener, membership, (PURPOSE,), self._admit)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="ringtune-output", daemon=True)

    def __enter__(self) -> OutputTarget:
        self._thread.start()
        return self.target

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _serve(self) -> None:
        end_s = float("inf")
        while time.monotonic() < end_s and not (self._ended.is_set() and not self._channels):
            if self._ended.is_set():
                end_s = min(end_s, time.monotonic() + _DRAIN_S)
            with suppress(RingtuneError):  # no descriptor is left for one more connection; it waits
                self._loop.turn(_TURN_S)
        for rank in list(self._channels):
            self._end(rank)
        self._acceptor.close()
        self._loop.close()

    def _admit(self, caller: Caller) -> None:
        rank = caller.rank
        if rank in self._channels:
            self._end(rank)
        self._channels[rank] = caller.channel
        self._loop.on_readable(caller.channel, lambda: self._take(rank))

    def _take(self, rank: int) -> None:
        channel = self._channels[rank]
        try:
            channel.pump()
            while (message := channel.next_message()) is not None:
                self._add(rank, str(message.get("stream")), str(message.get("text")))
        except ChannelError:
            self._end(rank)

    def _end(self, rank: int) -> None:
        channel = self._channels.pop(rank)
        self._loop.forget(channel)
        channel.close()
        for name in self.target.streams:
            if self._rests.get((rank, name)):
                self._add(rank, name, "\n")

    def _add(self, rank: int, name: str, text: str) -> None:
        """Write the lines that are complete with a text; keep the rest."""
        stream = self._streams.get(name)
        if stream is None:
            return
        *lines, rest = (self._rests.get((rank, name), "") + text).split("\n")
        self._rests[rank, name] = rest
        if not lines:
            return
        try:
            stream.write("".join(f"{self._prefix_of(rank).decode()}{line}\n" for line in lines))
            stream.flush()
        except (OSError, ValueError):  # the caller has closed it, or its disk is full: the job goes on without
            del self._streams[name]
