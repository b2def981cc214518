# SPDX-License-Identifier: Apache-2.0
"""Target protocol: the interface between the policy and the system that it tunes, such as the native engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .sample import Window
from .space.config import Config
from .space.search_space import SearchSpace


class TargetClosed(Exception):  # noqa: N818 - an event, not an error: the job is over
    """The job is over; the tuning run ends quietly."""


@dataclass(frozen=True)
class WindowSpec:
    """Specification of a window.

    Attributes:
        epoch: Config epoch that the steps must have.
        settle_steps: Steps to skip once the epoch is in force.
        steps: Steps to measure.
        limit_ms: Step time above which the window is cut early, milliseconds; 0 never cuts.
    """

    epoch: int
    settle_steps: int
    steps: int
    limit_ms: float


class Target(Protocol):
    """System whose parameters can be switched while it runs and whose steps can be timed."""

    @property
    def name(self) -> str:
        """Short name, part of a study's key."""

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
        """Yield consecutive windows under `spec`, each once it is complete; skip the settling steps before the first.

        Raises:
            TargetClosed: If the job is over.
        """


@runtime_checkable
class ParallelTarget(Target, Protocol):
    """Target that can measure several configs at the same time, such as launches of a command."""

    def windows_at_once(self, specs: Sequence[WindowSpec]) -> Iterator[Window]:
        """Measure a window under each spec, all at the same time; yield the windows in the order of the specs.

        Each spec has the epoch of an `apply` of its own, which its window has, too.

        Raises:
            TargetClosed: If the job is over; the windows that were complete before are yielded first.
        """
