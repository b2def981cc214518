# SPDX-License-Identifier: Apache-2.0
"""What one live run is told on its command line."""

import json
from dataclasses import asdict, dataclass

MARK = "live-result: "
"""Before the line of JSON in which rank 0 says what became of it."""


@dataclass(frozen=True)
class Task:
    """One run of a scheme in a job of its own.

    Attributes:
        scheme: Who tunes.
        seed: Of the scheme.
        steps: That Horovod's scheme may take.
        layers: Of the job: as many tensors of weights.
        width: Of a layer: the square of it is its weights.
        compute_ms: Of a step, processor time, milliseconds.
        address: Where rank 0 is reached.
    """

    scheme: str
    seed: int
    steps: int
    layers: int
    width: int
    compute_ms: float
    address: str

    def argument(self) -> str:
        """Return the argument that `from_argument` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls, argument: str) -> "Task":
        """Return the task that an argument describes."""
        return cls(**json.loads(argument))
