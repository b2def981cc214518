# SPDX-License-Identifier: Apache-2.0
"""The identity of a place, by which its variables are told apart from those of every other rank and job of a host."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Identity:
    """One rank of one job, as its variables tell it. A child inherits the variables, and so the identity.

    Attributes:
        text: Equal for two processes exactly if they were told the same place; may hold a secret.
        rank: The rank, as told.
        world_size: The number of ranks, as told.
        names: Every variable that tells the place.
        unset: The variables without which nothing tells it.
    """

    text: str = field(repr=False)
    rank: str
    world_size: str
    names: tuple[str, ...]
    unset: tuple[str, ...]

    @property
    def place(self) -> str:
        """The place in words."""
        return f"the place of rank {self.rank} of {self.world_size}"

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return those variables of an environment that tell the place."""
        return {name: environ[name] for name in self.names if name in environ}
