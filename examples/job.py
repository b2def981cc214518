# SPDX-License-Identifier: Apache-2.0
"""Start example jobs and read their reports.

Duty: jobs of the demo and the benchmarks. Each job is processes of its own, as a user would start them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
RINGTUNE = str(Path(sys.executable).with_name("ringtune"))
OURS = ("AUTOTUNE", "RINGTUNE_", "HOROVOD_")


@dataclass(frozen=True)
class ExampleJob:
    """A script with its arguments, the number of ranks, and the variables that it is given."""

    script: str  # relative to the repository
    arguments: Sequence[str] = ()
    ranks: int = 2
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self, report: Path) -> list[str]:
        """Return the command line; one rank runs without a launcher."""
        script = [sys.executable, str(REPOSITORY / self.script), *self.arguments, "--report", str(report)]
        return script if self.ranks == 1 else [RINGTUNE, "run", "-np", str(self.ranks), *script]

    def environment(self) -> dict[str, str]:
        """Return this process's environment with the job's variables and none of ours besides.

        Tuning runs are not kept, so that no job begins where another ended.
        """
        others = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        return {**others, "AUTOTUNE_CACHE": "0", **self.variables}

    def run(self, report: Path, *, timeout_s: float = 900.0) -> dict[str, Any]:
        """Run the job and return the report that its rank 0 wrote.

        Raises:
            subprocess.SubprocessError: If the job fails or takes too long.
        """
        report.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(self.command(report), check=True, timeout=timeout_s, env=self.environment())
        return dict(json.loads(report.read_text(encoding="utf-8")))
