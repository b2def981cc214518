# SPDX-License-Identifier: Apache-2.0
"""The folder through which the caller of `ringtune.run` and its ranks speak: what lies where in it."""

from dataclasses import dataclass
from pathlib import Path

MODULE_NAME = "ringtune_function"
"""Of the module that is made from a function's source."""


@dataclass(frozen=True)
class CallFolder:
    """A folder of one call, which nobody but its user may enter."""

    path: Path

    @property
    def call(self) -> Path:
        """What to call, with which arguments."""
        return self.path / "call"

    @property
    def source(self) -> Path:
        """The module made from the function's source."""
        return self.path / f"{MODULE_NAME}.py"

    def outcome(self, rank: int) -> Path:
        """What came of a rank's call."""
        return self.path / f"outcome.{rank}"
