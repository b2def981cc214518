# SPDX-License-Identifier: Apache-2.0
"""The real service in a process of its own, which can be killed and started again on the same port and data.

It keeps no recommendations: a second job may ask within the second for which the first one's answer would be kept.
"""

import signal
from pathlib import Path

from tests.integration.forked_services import ForkedCommand, start_command
from tests.integration.ports import free_port
from tests.integration.service.server_process import environment

KEEPS_NOTHING = {"RINGTUNE_SERVICE_CACHE_ENTRIES_MAX": "0"}


class RealService:
    """A service on SQLite, in a folder."""

    def __init__(self, folder: Path) -> None:
        """Use a folder that exists; no process is started."""
        self._folder = folder
        self._database = f"sqlite:///{folder / 'service.db'}"
        self._log = folder / "service.log"
        self._process: ForkedCommand | None = None
        self._port = free_port()

    @property
    def url(self) -> str:
        """Return the address after the start."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        words = ("serve", "--port", str(self._port), "--database-url", self._database)
        environ = environment(self._folder, **KEEPS_NOTHING)
        self._process = start_command(*words, environ=environ, folder=self._folder, stderr=self._log)
        greeting = self._process.stdout.readline()
        assert f":{self._port}," in greeting, f"{greeting!r}\n{self._log.read_text()}"

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(60)
            self._process.stdout.close()
            self._process = None
