# SPDX-License-Identifier: Apache-2.0
"""Settings of one live run, as its command line has them."""

import json
from dataclasses import asdict, dataclass

MARK = "live-result: "
"""Prefix of the line of JSON with which rank 0 reports."""


@dataclass(frozen=True)
class LiveTask:
    """One run of a scheme in a job of its own.

    Attributes:
        scheme: Name of the scheme that tunes.
        seed: Seed of the scheme.
        steps: Budget of Horovod's scheme.
        layers: Layers of the job, each with one tensor of weights.
        width: Width of a layer, which has width² weights.
        compute_ms: Processor time of a step, milliseconds.
        address: Address of rank 0.
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
    def from_argument(cls, argument: str) -> "LiveTask":
        """Return the task that an argument describes."""
        return cls(**json.loads(argument))
