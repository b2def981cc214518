# SPDX-License-Identifier: Apache-2.0
"""Orders of a surface's recorder to the ranks of a launch, on their command line."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MIN_STEPS = 5
MAX_STEPS = 40
"""Steps of a window."""


@dataclass(frozen=True)
class Assignment:
    """Windows that a launch measures.

    Attributes:
        workload: Workload, as `Workload.argument` writes it.
        compute_ms: Processor time of a step, milliseconds.
        window_ms: About how long a window is; MIN_STEPS to MAX_STEPS steps.
        configs: All parameters of each.
    """

    workload: str
    compute_ms: float
    window_ms: float
    configs: tuple[Mapping[str, Any], ...]

    def argument(self) -> str:
        """Return the argument that `from_argument` reads."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_argument(cls, argument: str) -> "Assignment":
        """Return the assignment that an argument describes."""
        fields = json.loads(argument)
        return cls(**{**fields, "configs": tuple(fields["configs"])})
