# SPDX-License-Identifier: Apache-2.0
"""Settings of one live run, as its command line has them."""

import json
from dataclasses import asdict, dataclass

MARK = "live-result: "
"""Prefix of the line of JSON with which rank 0 reports."""
RINGTUNE, HOROVOD = "ringtune", "horovod"
SCHEMES = (RINGTUNE, HOROVOD)


@dataclass(frozen=True)
class LiveTask:
    """One run of a scheme in a job of its own.

    Attributes:
        net: Name of the net.
        front: Way in which it reduces gradients.
        scheme: Name of the scheme that tunes.
        seed: Seed of weights and search.
        steps: Budget of Horovod's scheme.
        max_pairs: Pairs of windows, after tuning, that measure a gain.
    """

    net: str
    front: str
    scheme: str
    seed: int
    steps: int
    max_pairs: int = 10

    def argument(self) -> str:
        """Return the argument that `from_argument` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls, argument: str) -> "LiveTask":
        """Return the task that an argument describes."""
        return cls(**json.loads(argument))
