# SPDX-License-Identifier: Apache-2.0
"""Progress of a training, as a worker reports it to the rendezvous server: at each meeting, and when it fails.

The module compares places; it knows neither states nor commits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_COUNTERS = 64  # integers of a state that are told; a message has room for them
MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True)
class Progress:
    """Place of a training at its last commit.

    Attributes:
        counters: Integers of its state by name, such as the number of the step.
        moving: Names of those that have changed since the commit.
        commits: Commits since the training function was called, or since a counter has changed.
    """

    counters: Mapping[str, int] = field(default_factory=dict)
    moving: frozenset[str] = frozenset()
    commits: int = 0

    def is_beyond(self, other: "Progress") -> bool:
        """Return whether this is the place of a newer commit than another one.

        A training that begins again at a commit may make that commit once more, and count further than before with some
        counters. One that has got further has moved them all, or one that stood still after the other commit.

        Args:
            other: Place of an earlier time.
        """
        names = self.counters.keys() | other.counters.keys()
        changed = {name for name in names if self.counters.get(name) != other.counters.get(name)}
        if not changed:
            return self.commits > other.commits
        return not changed <= other.moving or changed == other.moving

    def to_message(self) -> dict[str, object]:
        """Return the fields of a message."""
        return {"counters": dict(self.counters), "moving": sorted(self.moving), "commits": self.commits}

    @classmethod
    def from_message(cls, fields: object) -> "Progress | None":
        """Return the progress in a message; None if it has none, or in a form that is not known.

        Args:
            fields: Result of `to_message`, from a worker.
        """
        if not isinstance(fields, Mapping):
            return None
        counters, moving, commits = fields.get("counters"), fields.get("moving"), fields.get("commits")
        if not isinstance(counters, Mapping) or not isinstance(moving, list) or not isinstance(commits, int):
            return None
        if len(counters) > MAX_COUNTERS or not all(isinstance(count, int) for count in counters.values()):
            return None
        return cls(dict(counters), frozenset(map(str, moving)), commits)
