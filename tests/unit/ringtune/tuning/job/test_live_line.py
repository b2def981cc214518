# SPDX-License-Identifier: Apache-2.0
"""The live line: the terminals that get it, and its return; `tests/integration` shows its look."""

import threading

import pytest

from ringtune.tuning.job.live_line import LineScreen, LiveLine, find_screen
from tests.unit.ringtune.captured_stderr import piped_stderr, read_until, terminal_stderr


def test_the_line_comes_back_by_itself() -> None:
    """Shown once, it is drawn again and again: whatever others print hides it for a moment only."""
    live = LiveLine(LineScreen(is_relayed=True))

    with piped_stderr() as stderr:
        live.show("here")
        drawn = read_until(stderr, b"here", times=4)
        live.close()

    assert 4 <= drawn.count(b"here")
    assert drawn.startswith(b"here\x1b[K\r")


def test_a_closed_line_leaves_no_thread(capfd: pytest.CaptureFixture[str]) -> None:
    """No line is drawn after close()."""
    threads = set(threading.enumerate())
    live = LiveLine(LineScreen(is_relayed=True))
    live.show("here")

    live.close()
    live.close()

    assert threads == set(threading.enumerate())


def test_a_line_is_cut_to_the_terminal() -> None:
    """The cut leaves room for the launcher's prefix."""
    with terminal_stderr(columns=20) as stderr:
        live = LiveLine(LineScreen(is_relayed=True))
        live.show("0123456789abcdef")
        drawn = read_until(stderr, "…".encode(), times=1)
        live.close()

    assert drawn.startswith("0123456789a…\x1b".encode())


@pytest.mark.parametrize(("value", "is_relayed"), [("120", True), ("0", False), ("", False), ("12x", False)])
def test_a_terminal_is_the_launchers_where_it_says_so(
    value: str, is_relayed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher's variable marks its terminal; any other value is ignored."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("RINGTUNE_TERMINAL_COLUMNS", value)

    with terminal_stderr(columns=20):
        found = find_screen()

    assert LineScreen(is_relayed) == found


def test_a_pipe_is_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the launcher has a terminal: this process writes elsewhere."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("RINGTUNE_TERMINAL_COLUMNS", "80")

    with piped_stderr():
        assert find_screen() is None
