# SPDX-License-Identifier: Apache-2.0
"""A file of live runs (JSON Lines), appended to run by run, so that a series that was ended goes on."""

import json
from pathlib import Path
from typing import Any

from benchmarks.tuner.regret.source_digest import sources_digest
from ringtune import ddp, tuner
from ringtune.system.durable_lines import append_to

RIVALS = Path(__file__).parents[1] / "regret" / "rivals"
"""Folder of the restated schemes, Horovod's among them."""
NOT_RUN = frozenset(("report.py", "run_file.py", "__main__.py", "review", "simulator"))
"""Files and folders on which no run depends: they show results, or look at other things."""


class RunFile:
    """The runs of a file that were done with these sources of the tuner, and how many others it has.

    Attributes:
        rows: A dictionary of each run.
        outdated: Runs of other versions, which stay in the file.
    """

    def __init__(self, path: Path) -> None:
        """Make the folder, and read the runs of the file; a torn line is no run."""
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        ours = (Path(file).parent for file in (tuner.__file__, ddp.__file__, __file__))
        folders = (*ours, RIVALS)
        self._sources = sources_digest(folders, NOT_RUN)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        known = [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
        self.rows: list[dict[str, Any]] = [row for row in known if row.get("sources") == self._sources]
        self.outdated = len(known) - len(self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Keep a run, on a line of its own even behind a torn one."""
        of_these_sources = {**row, "sources": self._sources}
        self.rows.append(of_these_sources)
        append_to(self._path, json.dumps(of_these_sources))
