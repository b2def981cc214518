# SPDX-License-Identifier: Apache-2.0
"""Time until the service is ready after a kill, and its distribution over many kills."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.service.server_process import serving

LIMIT_S = 120.0
"""The bar is 3 s on two idle cores; tests run on busy ones, too. Whoever is not ready by then never will be."""
LOOK_S = 0.01


@dataclass
class Readiness:
    """The times to ready that were seen.

    Attributes:
        times_s: Seconds from each start to ready.
    """

    times_s: list[float] = field(default_factory=list)

    def wait(self, began_s: float, is_ready: Callable[[], bool]) -> None:
        """Wait until it is ready and note how long that took since `began_s`, of `time.monotonic()`."""
        while not is_ready():
            assert time.monotonic() - began_s < LIMIT_S, f"not ready after {LIMIT_S:g} s"
            time.sleep(LOOK_S)
        self.times_s.append(time.monotonic() - began_s)

    def serve(self, url: str, folder: Path) -> None:
        """Start `ringtune serve` on a database that a killed one left, note when `/readyz` says so, and kill it too."""
        began_s = time.monotonic()
        with serving(folder, variables={"RINGTUNE_SERVICE_DATABASE_URL": url}) as server:
            self.wait(began_s, lambda: server.client.get("/readyz").status_code == 200)

    def __str__(self) -> str:
        """Return the distribution, seconds."""
        ordered = sorted(self.times_s)
        shares = {"median": 0.5, "p90": 0.9, "p99": 0.99, "largest": 1.0}
        figures = [
            f"{name} {ordered[min(int(share * len(ordered)), len(ordered) - 1)]:.2f}" for name, share in shares.items()
        ]
        return f"{len(ordered)} times ready after, s: {', '.join(figures)}"
