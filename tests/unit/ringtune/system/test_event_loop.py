# SPDX-License-Identifier: Apache-2.0
"""The event loop: which callbacks a turn calls, and which descriptors can be watched."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ringtune.system.event_loop import EventLoop, first_readable, is_readable, is_writable, signals_in


@pytest.fixture(params=[False, True], ids=["epoll", "poll"])
def loop(request: pytest.FixtureRequest) -> Iterator[EventLoop]:
    """A loop of either kind."""
    with closing(EventLoop(takes_files=request.param)) as opened:
        yield opened


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection, which the first can read."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"!")
        yield ours, theirs


def test_a_turn_calls_what_is_ready_and_then_the_chores(
    loop: EventLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    """A forgotten descriptor has no more calls; forgetting it twice does no harm."""
    called: list[str] = []
    loop.on_readable(ends[0], lambda: called.append("readable"))
    loop.on_writable(ends[1], lambda: called.append("writable"))
    loop.add_chore(chore := lambda: called.append("chore"))

    loop.turn(1.0)
    loop.forget(ends[0])
    loop.forget(ends[0])
    loop.remove_chore(chore)
    loop.turn(1.0)

    assert ["chore", "readable", "writable", "writable"] == [called[2], *sorted(called[:2]), *called[3:]]


def test_what_a_callback_forgets_is_not_called_in_that_turn(loop: EventLoop) -> None:
    """Its descriptor may be closed, or another's by then."""
    pairs = [socket.socketpair() for _ in range(2)]
    called = []

    def take(own: int, other: int) -> None:
        called.append(own)
        loop.forget(pairs[other][0])

    for own, other in ((0, 1), (1, 0)):
        pairs[own][1].send(b"!")
        loop.on_readable(pairs[own][0], lambda own=own, other=other: take(own, other))  # type: ignore[misc]
    loop.turn(1.0)
    for pair in pairs:
        pair[0].close()
        pair[1].close()

    assert 1 == len(called)


def test_files_are_always_ready(tmp_path: Path) -> None:
    """A launcher's output may go to one, which epoll cannot watch."""
    with (tmp_path / "out").open("wb") as file, closing(EventLoop(takes_files=True)) as loop:
        called: list[str] = []
        loop.on_writable(file, lambda: called.append("writable"))
        loop.turn(None)

        assert ["writable"] == called


def test_a_loop_can_be_watched_by_another(ends: tuple[socket.socket, socket.socket]) -> None:
    """The loop is readable while something waits to be served."""
    with closing(EventLoop()) as inner:
        assert not is_readable(inner)
        inner.on_readable(ends[0], lambda: None)

        assert is_readable(inner)


def test_a_signal_is_a_callback_and_handlers_come_back(loop: EventLoop) -> None:
    """A signal wakes the loop; afterwards it has its earlier handler again."""
    before = signal.getsignal(signal.SIGHUP)
    numbers: list[int] = []
    with signals_in(loop, numbers.append):
        os.kill(os.getpid(), signal.SIGHUP)
        loop.turn(None)

    assert [signal.SIGHUP] == numbers
    assert before == signal.getsignal(signal.SIGHUP)


def test_the_first_of_several_that_can_be_read_is_named(ends: tuple[socket.socket, socket.socket]) -> None:
    """None if there is none within the limit; a limit below zero does not wait."""
    ours, theirs = ends

    assert ours.fileno() == first_readable([theirs, ours], None)
    assert [None, None] == [first_readable([theirs], limit_s) for limit_s in (0.0, -1.0)]
    assert is_writable(theirs)


def test_a_full_pipe_cannot_be_written() -> None:
    """Until it is read."""
    read_end, write_end = os.pipe2(os.O_NONBLOCK)
    with os.fdopen(read_end), os.fdopen(write_end, "wb", 0):
        with pytest.raises(BlockingIOError):
            list(iter(lambda: os.write(write_end, bytes(1 << 16)), 0))

        assert not is_writable(write_end)
