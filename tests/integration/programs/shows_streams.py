# SPDX-License-Identifier: Apache-2.0
"""Prints the kinds of its streams and the size of the window, and again after a given number of size changes."""

import os
import signal
import sys
from queue import SimpleQueue

STDOUT = 1


def streams() -> str:
    """Return the kinds of both streams, and the size of the first that is a terminal."""
    terminals = [stream for stream in (1, 2) if os.isatty(stream)]
    size = os.get_terminal_size(terminals[0]) if terminals else None
    kinds = "+".join({1: "out", 2: "err"}[stream] for stream in terminals) or "none"
    return f"terminals {kinds}, size {'none' if size is None else f'{size.columns}x{size.lines}'}"


def write(line: str) -> None:
    """Write a line with one call."""
    os.write(STDOUT, f"{line}\n".encode())


def main(changes: int) -> None:
    """Say it."""
    sizes: SimpleQueue[str] = SimpleQueue()
    signal.signal(signal.SIGWINCH, lambda _number, _frame: sizes.put(streams()))
    write(f"{streams()}, TERM {os.environ.get('TERM')}, unbuffered {os.environ.get('PYTHONUNBUFFERED')}")
    for _ in range(changes):
        write(f"now {sizes.get()}")


main(int(sys.argv[1]))
