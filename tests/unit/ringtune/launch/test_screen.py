# SPDX-License-Identifier: Apache-2.0
"""The launcher's description of its terminal to the ranks."""

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ringtune.launch import make_plan

NAME = "RINGTUNE_TERMINAL_COLUMNS"
ENVIRON = {"PATH": os.environ["PATH"], "TERM": "xterm"}


@contextmanager
def terminal() -> Iterator[None]:
    """Have a terminal of 132 columns as standard error; pytest would undo a fixture's redirection."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 132, 0, 0))
    saved = os.dup(2)
    os.dup2(theirs, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        for descriptor in (saved, ours, theirs):
            os.close(descriptor)


def width_told(environ: dict[str, str], *, prefix_output: bool) -> str | None:
    """Return the width that a rank gets."""
    return make_plan(["true"], 1, {}, environ, prefix_output=prefix_output).environments[0].get(NAME)


def test_ranks_whose_output_is_shown_are_told_the_width() -> None:
    """The variable shows that the launcher puts the ranks' output among the lines of others."""
    with terminal():
        widths = [width_told(ENVIRON, prefix_output=prefix_output) for prefix_output in (True, False)]

    assert ["132", "132"] == widths


def test_a_dumb_terminal_is_not_told_of() -> None:
    """A terminal whose cursor cannot be moved gives no width."""
    with terminal():
        width = width_told({**ENVIRON, "TERM": "dumb"}, prefix_output=True)

    assert width is None


def test_without_a_terminal_ranks_are_told_of_none(capfd: pytest.CaptureFixture[str]) -> None:
    """Not of another launcher's either, around this one, whose lines would be torn."""
    assert width_told({**ENVIRON, NAME: "80"}, prefix_output=True) is None
