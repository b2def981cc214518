# SPDX-License-Identifier: Apache-2.0
"""Says what its streams are, how large the window is, and, given an argument, again after each change of its size."""

import os
import signal
import sys

STDOUT = 1

sizes: list[str] = []


def streams() -> str:
    """Return what the two streams are, and the size of the first that is a terminal."""
    terminals = [stream for stream in (1, 2) if os.isatty(stream)]
    size = os.get_terminal_size(terminals[0]) if terminals else None
    kinds = "+".join({1: "out", 2: "err"}[stream] for stream in terminals) or "none"
    return f"terminals {kinds}, size {'none' if size is None else f'{size.columns}x{size.lines}'}"


signal.signal(signal.SIGWINCH, lambda _number, _frame: sizes.append(streams()))
os.write(
    STDOUT, f"{streams()}, TERM {os.environ.get('TERM')}, unbuffered {os.environ.get('PYTHONUNBUFFERED')}\n".encode()
)
for _ in range(int(sys.argv[1])):
    while not sizes:
        signal.sigtimedwait([], 0.05)
    os.write(STDOUT, f"now {sizes.pop()}\n".encode())
