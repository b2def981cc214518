# SPDX-License-Identifier: Apache-2.0
"""Output of many ranks as lines, on pipes and on a terminal."""

import os
import pty
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.launch import rank_output
from ringtune.launch.byte_sink import ByteSink
from ringtune.launch.rank_output import BACKLOG_BYTES, CLAIM_S, MAX_LINE_BYTES, PARTIAL_LINE_S, RankOutput
from ringtune.launch.rank_streams import OutputTaker
from ringtune.system.event_loop import EventLoop

OUT, ERR = 0, 1


class Shown:
    """An output on two pipes, or twice on one terminal, and the bytes that came out of it."""

    def __init__(
        self,
        writes: tuple[int, int],
        reads: tuple[int, int],
        *,
        has_prefix: bool = True,
        taps: Sequence[OutputTaker] = (),
    ) -> None:
        self._loop = EventLoop(takes_files=True)
        first = ByteSink(self._loop, writes[0])
        sinks = (first, first if writes[0] == writes[1] else ByteSink(self._loop, writes[1]))
        self.output = RankOutput(sinks, lambda rank: b"[%d] " % rank if has_prefix else b"", taps)
        self._reads = reads

    def text(self, stream: int = OUT) -> bytes:
        """Return the output since the last call."""
        os.set_blocking(self._reads[stream], False)
        found, is_over = b"", False
        while not is_over:
            self._loop.turn(0.0)
            is_over = not self.output.pending_bytes
            with suppress(BlockingIOError):
                found += os.read(self._reads[stream], 1 << 20)
        return found


@contextmanager
def on_pipes(*, has_prefix: bool = True, taps: Sequence[OutputTaker] = ()) -> Iterator[Shown]:
    """Show on two pipes."""
    (first_read, first_write), (second_read, second_write) = os.pipe(), os.pipe()
    yield Shown((first_write, second_write), (first_read, second_read), has_prefix=has_prefix, taps=taps)
    for descriptor in (first_read, first_write, second_read, second_write):
        os.close(descriptor)


@contextmanager
def on_terminal() -> Iterator[Shown]:
    """Show both streams on one terminal."""
    read, write = pty.openpty()
    tty.setraw(write)
    yield Shown((write, write), (read, read))
    os.close(write)
    os.close(read)


def test_every_line_has_its_rank_and_keeps_its_stream() -> None:
    """Lines come whole, in order, with the rank in front, empty ones too."""
    with on_pipes() as shown:
        shown.output.take(1, OUT, b"one\n\nthree\r\n")
        shown.output.take(0, ERR, b"four\n")

        assert b"[1] one\n[1] \n[1] three\r\n" == shown.text(OUT)
        assert b"[0] four\n" == shown.text(ERR)


def test_pieces_of_lines_do_not_mix() -> None:
    """A line that comes in pieces is shown when it is whole."""
    with on_pipes() as shown:
        shown.output.take(0, OUT, b"first ")
        shown.output.take(1, OUT, b"second ")
        shown.output.take(0, OUT, b"of 0\n")
        shown.output.take(1, OUT, b"of 1\n")

        assert b"[0] first of 0\n[1] second of 1\n" == shown.text()


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock of the output, which the test sets."""
    clock = [5.0]
    monkeypatch.setattr(rank_output, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    return clock


def test_an_unfinished_line_is_shown_after_a_moment(now_s: list[float]) -> None:
    """A prompt is seen; the rest of the line continues it at once."""
    with on_pipes() as shown:
        shown.output.take(0, OUT, b"loading... ")
        now_s[0] += PARTIAL_LINE_S / 4
        assert pytest.approx(PARTIAL_LINE_S * 3 / 4) == shown.output.show_waiting()
        assert b"" == shown.text()

        now_s[0] += PARTIAL_LINE_S
        assert shown.output.show_waiting() is None
        assert b"[0] loading... " == shown.text()
        shown.output.take(0, OUT, b"done\n")
        assert b"done\n" == shown.text()


def test_lines_wait_for_the_end_of_one_that_was_shown_unfinished(now_s: list[float]) -> None:
    """A rank that got no processor in the middle of a line finds its place kept."""
    with on_pipes() as shown:
        shown.output.take(0, OUT, b"a long ")
        now_s[0] += PARTIAL_LINE_S
        shown.output.show_waiting()
        shown.output.take(1, OUT, b"short\n")
        shown.output.take(2, OUT, b"too\n")
        now_s[0] += CLAIM_S * 0.9
        shown.output.show_waiting()
        assert b"[0] a long " == shown.text()

        shown.output.take(0, OUT, b"line\n")
        assert b"line\n[1] short\n[2] too\n" == shown.text()


@pytest.mark.parametrize("has_prefix", [True, False])
def test_a_line_that_is_never_finished_keeps_nobody_waiting(has_prefix: bool, now_s: list[float]) -> None:
    """Others go on after a while, once per line; without a prefix no byte is added."""
    with on_pipes(has_prefix=has_prefix) as shown:
        shown.output.take(0, OUT, b"dots.")
        now_s[0] += PARTIAL_LINE_S
        shown.output.show_waiting()
        shown.output.take(1, OUT, b"first\n")
        now_s[0] += CLAIM_S
        shown.output.show_waiting()
        shown.output.take(0, OUT, b".")
        now_s[0] += PARTIAL_LINE_S
        shown.output.show_waiting()
        shown.output.take(1, OUT, b"second\n")
        shown.output.show_all()

        expected = b"[0] dots.\n[1] first\n[0] .\n[1] second\n" if has_prefix else b"dots.first\n.second\n"
        assert expected == shown.text()


def test_time_in_which_nobody_reads_tears_no_line(now_s: list[float]) -> None:
    """While the reader stops, ranks are held back; the end of a line that was begun before still belongs to it."""
    with on_pipes() as shown:
        shown.output.take(0, OUT, b"begin ")
        shown.output.take(1, ERR, b"x" * BACKLOG_BYTES + b"\n")
        assert shown.output.is_clogged
        now_s[0] += 2 * CLAIM_S
        shown.output.show_waiting()
        while shown.output.pending_bytes:
            shown.text(ERR)
        shown.output.show_waiting()
        shown.output.take(1, OUT, b"other\n")
        shown.output.take(0, OUT, b"end\n")

        assert b"[1] other\n[0] begin end\n" == shown.text(OUT)


def test_a_line_that_grows_all_the_time_is_shown(now_s: list[float]) -> None:
    """A progress bar in a pipe, which never pauses and never ends a line, is seen every few seconds."""
    with on_pipes(has_prefix=False) as shown:
        for _ in range(40):
            shown.output.take(0, ERR, b"\r%d" % now_s[0])
            now_s[0] += PARTIAL_LINE_S / 2
            shown.output.show_waiting()

        assert shown.text(ERR).startswith(b"\r5\r5")


def test_without_prefix_a_pipe_gets_what_was_written() -> None:
    """Returns, zeros and bytes that are no text come out as they went in, although another stream is shown, too."""
    data = bytes(range(256)) * 1024 + b"\r\r\n\r"
    with on_pipes(has_prefix=False) as shown:
        shown.output.take(0, OUT, data[:1000])
        shown.output.take(1, ERR, b"a line\n")
        found = shown.text()
        for start in range(1000, len(data), 7777):
            shown.output.take(0, OUT, data[start : start + 7777])
            found += shown.text()
        shown.output.show_all()

        assert data == found + shown.text()


def test_taps_get_every_byte_as_it_was_written() -> None:
    """A tap gets rank, stream and bytes, before lines are made of them."""
    heard: list[tuple[int, int, bytes]] = []
    tap = SimpleNamespace(take=lambda rank, stream, data: heard.append((rank, stream, data)))
    with on_pipes(taps=[tap]) as shown:
        shown.output.take(1, OUT, b"half")
        shown.output.take(0, ERR, b"\xff\r")
        assert [(1, OUT, b"half"), (0, ERR, b"\xff\r")] == heard


def test_a_live_line_is_wiped_for_another_ranks_line() -> None:
    """On a terminal a progress bar makes room, and comes back with its next update."""
    with on_terminal() as shown:
        shown.output.take(0, ERR, b"\r10%")
        shown.output.show_all()
        shown.output.take(0, ERR, b"\r20%")
        shown.output.show_all()
        shown.output.take(1, OUT, b"hello\n")
        shown.output.take(0, ERR, b"\r30%")
        shown.output.show_all()
        shown.output.take(0, ERR, b"\n")

        assert b"[0] 10%\r[0] 20%\r\x1b[K[1] hello\n[0] 30%\n" == shown.text()


def test_a_live_line_that_ends_in_its_return_is_wiped_too() -> None:
    """The other habit: the return comes at the end of each update."""
    with on_terminal() as shown:
        for step in (b"10%\r", b"20%\r"):
            shown.output.take(0, OUT, step)
            shown.output.show_all()
        shown.output.take(1, OUT, b"hi\n")

        assert b"[0] 10%\r[0] 20%\r\r\x1b[K[1] hi\n" == shown.text()


def test_the_launchers_own_line_begins_on_a_line() -> None:
    """The line does not continue a rank's unfinished one."""
    with on_pipes() as shown:
        shown.output.take(3, ERR, b"half")
        shown.output.show_all()
        shown.output.announce("over")

        assert b"[3] half\nover\n" == shown.text(ERR)


def test_a_line_without_end_is_not_collected() -> None:
    """Megabytes without a line feed come through as they are."""
    with on_pipes() as shown:
        read = b""
        for _ in range(20):
            shown.output.take(0, OUT, b"\xff\x00" * (MAX_LINE_BYTES // 8))
            read += shown.text()
        shown.output.show_all()
        read += shown.text()

        assert b"[0] " + b"\xff\x00" * (MAX_LINE_BYTES // 8) * 20 == read


@given(
    writes=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([b"a", b"bc", b"\n", b"\xc3\xa4", b"\x00", b"x\ny"])), max_size=30
    )
)
def test_no_byte_is_lost(writes: list[tuple[int, bytes]]) -> None:
    """Without returns, each rank's lines come out as the rank wrote them, however the writes of the ranks mix."""
    with on_pipes() as shown:
        for rank, data in writes:
            shown.output.take(rank, OUT, data)
        shown.output.show_all()
        lines = shown.text().split(b"\n")

    for rank in range(3):
        written = b"".join(data for writer, data in writes if writer == rank)
        prefix = b"[%d] " % rank
        shown_lines = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
        assert written.removesuffix(b"\n").split(b"\n") == (shown_lines or [b""])


@pytest.mark.parametrize("size", [1, 5000, 300_000])
def test_a_sink_waits_for_its_reader(size: int) -> None:
    """Bytes that a pipe does not take stay until it does; the descriptor stays blocking for all others."""
    loop = EventLoop(takes_files=True)
    read, write = os.pipe()
    sink = ByteSink(loop, write)
    data = os.urandom(size)

    sink.write(data)
    found = b""
    while sink.pending_bytes:
        loop.turn(0.0)
        if not sink.pending_bytes or size > 65_536:
            found += os.read(read, 1 << 16)
    os.close(write)
    while rest := os.read(read, 1 << 16):
        found += rest
    os.close(read)

    assert data == found


def test_a_sink_without_reader_swallows_all() -> None:
    """A closed reader costs its output and no more."""
    loop = EventLoop(takes_files=True)
    read, write = os.pipe()
    os.close(read)
    sink = ByteSink(loop, write)

    sink.write(b"x")
    loop.turn(1.0)
    sink.write(b"x" * (1 << 22))
    os.close(write)

    assert 0 == sink.pending_bytes
    assert not sink.is_clogged
