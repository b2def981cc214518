# SPDX-License-Identifier: Apache-2.0
"""The way into the `ringtune` command: Ctrl-C ends it without a traceback, also while it still imports.

Knows nothing of commands. `python -m ringtune` is the same.
"""

import os
import signal
from types import FrameType, ModuleType

EXIT_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command line and exit."""
    _command_line().main()


def horovodrun() -> None:
    """Run `ringtune run` under the name of Horovod's launcher, and exit."""
    _command_line().horovodrun()


def _command_line() -> ModuleType:
    """Import the command line, which takes most of a second."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not ignored: nohup stays nohup
        signal.signal(signal.SIGINT, _leave)
    try:
        from . import cli  # noqa: PLC0415  (that is what Ctrl-C may interrupt)
    finally:
        signal.signal(signal.SIGINT, handler)
    return cli


def _leave(_number: int, _frame: FrameType | None) -> None:
    """End at once: nothing was begun."""
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
