# SPDX-License-Identifier: Apache-2.0
"""Base of all targets outside the tuner: a space, a baseline, and one window after another."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace

from ringtune.tuner import Config, SearchSpace, Window, WindowSpec


class BaseTarget(ABC):
    """Implements `ringtune.tuner.Target`; a subclass adds `apply` and `_window`.

    Attributes:
        name: The target's name in a study's key.
    """

    def __init__(self, name: str, space: SearchSpace, baseline: Config) -> None:
        """Hold the attributes that do not change.

        Args:
            name: See the attribute.
            space: The legal configs.
            baseline: Legal in `space`, and in force.
        """
        self.name = name
        self._space = space
        self._baseline = baseline

    def space(self) -> SearchSpace:
        """Return the legal configs."""
        return self._space

    def baseline(self) -> Config:
        """Return the config that the job runs without tuning."""
        return self._baseline

    @abstractmethod
    def apply(self, config: Config) -> int:
        """Ask for a config; return its epoch at once.

        Raises:
            TargetClosed: If the job is over.
        """

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield windows under `spec`, each once it is complete; only the first is preceded by settling steps.

        Raises:
            TargetClosed: If the job is over.
        """
        yield self._window(spec)
        while True:
            yield self._window(replace(spec, settle_steps=0))

    @abstractmethod
    def _window(self, spec: WindowSpec) -> Window:
        """Wait for the next window under `spec`, its settling steps first.

        Raises:
            TargetClosed: If the job is over.
        """
