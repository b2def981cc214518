# SPDX-License-Identifier: Apache-2.0
"""The target protocol: what the policy needs of whatever it tunes. The native engine is the first target."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from .sample import Window
from .space.config import Config
from .space.search_space import SearchSpace


class TargetClosed(Exception):  # noqa: N818 - an event, not an error: the job is over
    """The job is over; the tuning run ends quietly."""


@dataclass(frozen=True)
class WindowSpec:
    """What to measure.

    Attributes:
        epoch: The config epoch that must hold.
        settle_steps: Steps to skip once it holds.
        steps: Steps to measure.
        limit_ms: Cut the window early when its steps run over this, milliseconds; 0 never cuts.
    """

    epoch: int
    settle_steps: int
    steps: int
    limit_ms: float


class Target(Protocol):
    """Something whose parameters can be switched while it runs and whose steps can be timed."""

    @property
    def name(self) -> str:
        """A short name, part of a study's key."""

    def space(self) -> SearchSpace:
        """Return the legal configs."""

    def baseline(self) -> Config:
        """Return the config the job would run without tuning; legal in `space()`."""

    def apply(self, config: Config) -> int:
        """Ask for `config`; return its epoch at once, before it is in force.

        Raises:
            TargetClosed: If the job is over.
        """

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield consecutive windows under `spec`, each once it is complete; settle before the first.

        Raises:
            TargetClosed: If the job is over.
        """
