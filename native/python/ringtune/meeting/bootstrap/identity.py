# SPDX-License-Identifier: Apache-2.0
"""The identity of a place, which distinguishes its variables from those of every other rank and job of a host."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Identity:
    """One rank or worker of one job, as its variables describe it. A child inherits the variables, and so the identity.

    Attributes:
        text: Equal for two processes exactly if they were given the same place; may hold a secret.
        place: The place in words.
        names: Every variable that describes the place.
        unset: The variables that have to be unset for the place to be gone.
        is_alone: Whether it is the only rank of its world.
    """

    text: str = field(repr=False)
    place: str
    names: tuple[str, ...]
    unset: tuple[str, ...]
    is_alone: bool = False

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return those variables of an environment that describe the place."""
        return {name: environ[name] for name in self.names if name in environ}


def rank_in_words(rank: str, world_size: str) -> str:
    """Return a rank's place in words, as its variables describe it."""
    return f"the place of rank {rank} of {world_size}"
