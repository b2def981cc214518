# SPDX-License-Identifier: Apache-2.0
"""The end of a test process by SIGTERM: its context managers end their jobs, hosts and servers, as after Ctrl-C."""

import os
import signal
from types import FrameType


def unwind_at_sigterm() -> None:
    """Let SIGTERM raise `KeyboardInterrupt` in this process; a forked child ends at once, as without this call."""
    own_pid = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() == own_pid:
            signal.default_int_handler(number, frame)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, handle)
