# SPDX-License-Identifier: Apache-2.0
"""The real service in a process of its own, which can be killed and started again on the same port and data.

It keeps no recommendations: a second job may ask within the second for which the first one's answer would be kept.
"""

import signal
import subprocess
import sys
from pathlib import Path

from tests.integration.ports import free_port

SERVE = """
import sys
from ringtune.service.serving import serve
from ringtune.service.settings import ServiceSettings
settings = ServiceSettings(port=int(sys.argv[1]), database_url=sys.argv[2], cache_entries_max=0)
serve(settings, lambda text: print(text, flush=True))
"""


class RealService:
    """A service on SQLite, in a folder."""

    def __init__(self, folder: Path) -> None:
        """Use a folder that exists; nothing is started."""
        self._database = f"sqlite:///{folder / 'service.db'}"
        self._log = folder / "service.log"
        self._process: subprocess.Popen[str] | None = None
        self._port = free_port()

    @property
    def url(self) -> str:
        """Return the address after the start."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", SERVE, str(self._port), self._database],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        greeting = self._process.stdout.readline()
        assert f":{self._port}," in greeting, f"{greeting!r}\n{self._log.read_text()}"

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(60)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None
