# SPDX-License-Identifier: Apache-2.0
"""Joins, starts a child that does not heed signals, waits for one, and says which and whether the child still lives.

Argument: a folder, for a file `ready.RANK` with the process id once the signal may come.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from ringtune.session.session import SESSION
from tests.integration.plain_rank import join, say

MESSAGES = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGXCPU, signal.SIGRTMIN + 3}

child = subprocess.Popen(["sleep", "600"])
signal.pthread_sigmask(signal.SIG_BLOCK, MESSAGES)  # in all threads, so that none is ended
world = join()
(Path(sys.argv[1]) / f"ready.{world.rank}").write_text(f"{os.getpid()}\n", encoding="ascii")
number = signal.sigwait(MESSAGES)
say(f"heard {int(number)}, the child {'lives' if child.poll() is None else 'has ended'}")
child.kill()
child.wait()
SESSION.shutdown()
