# SPDX-License-Identifier: Apache-2.0
"""Runs `tuned.py` with its arguments, after it has registered a callback, which the fourth one names.

`records` prints its calls on rank 0; `raises` fails at the first call; `hangs` never comes back from it.
"""

import importlib
import sys
import threading

import ringtune.callbacks
from ringtune.callbacks import Callback, Moment
from ringtune.tuner import Progress, Result
from tests.integration.plain_rank import say


class Told(Callback):
    """Prints, raises or hangs."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def progress(self, progress: Progress, moment: Moment) -> None:
        """Do the requested action."""
        is_main = threading.current_thread() is threading.main_thread()
        say(f"told {progress.phase.value} at step {moment.step}, main thread: {is_main}")
        if self._kind == "raises":
            raise ValueError("no server")
        if self._kind == "hangs":
            threading.Event().wait()

    def finished(self, result: Result, moment: Moment) -> None:
        """Print the result."""
        say(f"told result {result.is_complete} at step {moment.step}")

    def close(self) -> None:
        """Print the end."""
        say("told the end")


ringtune.callbacks.add(Told(sys.argv[4]))
importlib.import_module("tests.integration.programs.tuned")
