# SPDX-License-Identifier: Apache-2.0
"""Where a live line is seen, and that it comes back by itself; what it looks like: `tests/integration`."""

import threading

import pytest

from ringtune.live_line import LiveLine, Screen, find_screen
from tests.unit.ringtune.captured_stderr import piped_stderr, read_until


def test_the_line_comes_back_by_itself() -> None:
    """Shown once, it is drawn again and again: whatever others print hides it for a moment only."""
    live = LiveLine(Screen(piped_columns=40))

    with piped_stderr() as stderr:
        live.show("here")
        drawn = read_until(stderr, b"here", times=4)
        live.close()

    assert 4 <= drawn.count(b"here")
    assert drawn.startswith(b"here\x1b[K\r")


def test_a_closed_line_leaves_no_thread(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is drawn after close()."""
    threads = set(threading.enumerate())
    live = LiveLine(Screen(piped_columns=40))
    live.show("here")

    live.close()
    live.close()

    assert threads == set(threading.enumerate())


def test_a_line_is_cut_to_the_launchers_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    """With room for what the launcher puts before it."""
    live = LiveLine(Screen(piped_columns=20))

    live.show("0123456789abcdef")
    live.close()

    assert capfd.readouterr().err.startswith("0123456789a…\x1b")


@pytest.mark.parametrize(("value", "columns"), [("120", 120), ("0", None), ("", None), ("12x", None), ("9" * 9, None)])
def test_a_pipe_is_a_screen_where_the_launcher_says_so(
    value: str, columns: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher's variable tells the width; anything else in it counts for nothing."""
    monkeypatch.setenv("RINGTUNE_TERMINAL_COLUMNS", value)

    with piped_stderr():
        found = find_screen()

    assert (None if columns is None else Screen(columns)) == found


def test_a_file_is_no_screen(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Although the launcher has a terminal: this process writes elsewhere."""
    monkeypatch.setenv("RINGTUNE_TERMINAL_COLUMNS", "80")

    assert find_screen() is None
