# SPDX-License-Identifier: Apache-2.0
"""The way into the `ringtune` command: Ctrl-C ends it without a traceback, also while it still imports.

Has no knowledge of the commands. `python -m ringtune` is the same.
"""

import os
import signal

EXIT_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command line and exit."""
    _leave_at_ctrl_c()
    from . import cli  # noqa: PLC0415  (takes most of a second, which Ctrl-C may interrupt)

    cli.main()


def horovodrun() -> None:
    """Run `ringtune run` under the name of Horovod's launcher, and exit."""
    _leave_at_ctrl_c()
    from . import cli  # noqa: PLC0415  (as above)

    cli.horovodrun()


def _leave_at_ctrl_c() -> None:
    """Have Ctrl-C end the process at once, until the command line takes it over; under nohup it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


def leave(_number: int, _frame: object) -> None:
    """End at once: no command has begun."""
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
