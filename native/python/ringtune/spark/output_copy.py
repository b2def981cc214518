# SPDX-License-Identifier: Apache-2.0
"""A rank's copy of its output: it goes to the driver's collector, and to the executor's log as before.

The descriptors are replaced and not Python's streams alone, so that the engine's lines and those of programs that the
function starts go along. A driver that cannot be reached, or has gone, disturbs no training.
"""

import codecs
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ringtune.errors import RingtuneError
from ringtune.meeting.rendezvous.address import Address
from ringtune.meeting.rendezvous.channel import Channel, ChannelError, Deadline
from ringtune.meeting.rendezvous.connector import Destination, open_channel
from ringtune.meeting.rendezvous.proof import NO_RANK, Membership
from ringtune.system.console import write_line
from ringtune.system.event_loop import first_readable
from ringtune.system.standard_streams import above_standard_streams

from .output_collector import PURPOSE, OutputTarget

_DESCRIPTORS = {"stdout": 1, "stderr": 2}
_CONNECT_LIMIT_S = 10.0
_END_LIMIT_S = 10.0  # for the last lines, at the end of the function
_PIECE_BYTES = 1 << 16
_POLL_S = 0.2


@contextmanager
def copied_output(target: OutputTarget | None, rank: int) -> Iterator[None]:
    """Copy this process's output to the driver; without a target, or if it cannot be reached, leave it as it is."""
    channel = None if target is None else _connected(target, rank)
    if target is None or channel is None:
        yield
        return
    streams = [_CopiedStream(name) for name in target.streams]
    ended = threading.Event()
    thread = threading.Thread(target=_copy, args=(streams, channel, ended), name="ringtune-output", daemon=True)
    thread.start()
    try:
        yield
    finally:
        for stream in streams:
            stream.restore()
        ended.set()
        thread.join(_END_LIMIT_S)
        channel.close()


def _connected(target: OutputTarget, rank: int) -> Channel | None:
    to = Destination(Address("tcp", target.host, target.port), NO_RANK, PURPOSE)
    try:
        return open_channel(to, Membership(rank, 0, target.key), {}, Deadline.after(_CONNECT_LIMIT_S))
    except RingtuneError as error:
        write_line(
            f"ringtune.spark: rank {rank}: output stays in this log, for the driver's collector at {target.host} port "
            f"{target.port} cannot be reached: {error}"
        )
        return None


class _CopiedStream:
    """One of this process's standard streams, whose writes end in a pipe as long as it is not restored.

    Attributes:
        name: `stdout` or `stderr`.
        log: Descriptor of the stream as it was.
        source: Descriptor from which the writes are read.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._descriptor = _DESCRIPTORS[name]
        self._python: Any = getattr(sys, name)
        self._python.flush()
        self._was_line_buffered = bool(getattr(self._python, "line_buffering", True))
        self._buffer_lines(is_on=True)
        self.log = above_standard_streams(os.dup(self._descriptor))
        self.source, sink = (above_standard_streams(end) for end in os.pipe())
        os.set_blocking(self.source, False)
        os.dup2(sink, self._descriptor)
        os.close(sink)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def restore(self) -> None:
        """Let the writes go where they went before; earlier output is still to be read."""
        self._python.flush()
        self._buffer_lines(is_on=self._was_line_buffered)
        os.dup2(self.log, self._descriptor)

    def read(self) -> str | None:
        """Return text that was written and copy it to the log; None at the end, an empty text for none yet."""
        try:
            data = os.read(self.source, _PIECE_BYTES)
        except BlockingIOError:
            return ""
        with suppress(OSError):
            os.write(self.log, data)
        return self._decoder.decode(data) if data else None

    def close(self) -> None:
        os.close(self.source)
        os.close(self.log)

    def _buffer_lines(self, *, is_on: bool) -> None:
        if hasattr(self._python, "reconfigure"):
            self._python.reconfigure(line_buffering=is_on)


def _copy(streams: list[_CopiedStream], channel: Channel, ended: threading.Event) -> None:
    """Copy until the streams have ended, or are restored and read up to here; a child may hold a pipe for ever."""
    is_open = set(streams)
    is_connected = True
    while is_open:
        is_last = ended.is_set()
        first_readable([stream.source for stream in is_open], 0.0 if is_last else _POLL_S)
        for stream in list(is_open):
            text = stream.read()
            if text:
                is_connected = is_connected and _is_sent(channel, stream.name, text)
            elif text is None or is_last:
                is_open.remove(stream)
    for stream in streams:
        stream.close()


def _is_sent(channel: Channel, name: str, text: str) -> bool:
    try:
        channel.send({"type": "output", "stream": name, "text": text})
    except (ChannelError, TimeoutError):
        return False
    return True
