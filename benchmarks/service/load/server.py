# SPDX-License-Identifier: Apache-2.0
"""`ringtune serve` as a process, and the processor time that it has used."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ringtune.system.child_process import Child

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
ANNOUNCED = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Server:
    """A running service.

    Attributes:
        port: On loopback.
        process_id: Process id of `ringtune serve`.
        database_url: URL of its database.
    """

    port: int
    process_id: int
    database_url: str

    def cpu_s(self) -> float:
        """Return the processor time that its threads have used."""
        fields = Path(f"/proc/{self.process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


@contextmanager
def serving(url: str, folder: Path, variables: Mapping[str, str]) -> Iterator[Server]:
    """Start the service on a free port of loopback and end it with the block.

    Args:
        url: The database's.
        folder: Its working directory, and where its log goes.
        variables: Settings besides the database's.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("RINGTUNE_SERVICE_")}
    settings = {"RINGTUNE_SERVICE_DATABASE_URL": url, "RINGTUNE_SERVICE_DESIGN_WORKERS": "0", **variables}
    with (folder / "service.log").open("a", encoding="utf-8") as log:
        command = ["env", "-C", str(folder), sys.executable, "-m", "ringtune.cli", "serve", "--port", "0"]
        child = Child(command, {**own, **settings}, stderr=log.fileno())
    with child:
        line = (child.next_line() or b"").decode()
        found = ANNOUNCED.search(line)
        if found is None:
            raise RuntimeError(f"the service did not start ({line!r}); its log is {folder / 'service.log'}")
        yield Server(int(found[1]), child.pid, url)
