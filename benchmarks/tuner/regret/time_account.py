# SPDX-License-Identifier: Apache-2.0
"""Time account of a tuner: its windows without pauses, next to equal numbers of the baseline's steps."""

from collections.abc import Iterator
from dataclasses import dataclass

from ringtune.tuner import Config, SearchSpace, Window, WindowSpec

from .problem import TimedTarget

FIRST_MINUTE_S = 60.0


@dataclass
class Spent:
    """Seconds that windows took, and that the baseline's would have."""

    taken_s: float = 0.0
    baseline_s: float = 0.0

    def add(self, taken_s: float, baseline_s: float) -> None:
        """Add a window."""
        self.taken_s += taken_s
        self.baseline_s += baseline_s


class TimeAccount:
    """A target that keeps account of its windows.

    Attributes:
        in_all: Over all windows.
        later: Over those that began after the first minute.
    """

    def __init__(self, target: TimedTarget, baseline_ms: float) -> None:
        """Watch `target`, whose baseline's true steps take `baseline_ms`."""
        self._target = target
        self._baseline_ms = baseline_ms
        self.in_all = Spent()
        self.later = Spent()

    @property
    def name(self) -> str:
        """The target's."""
        return self._target.name

    @property
    def now_s(self) -> float:
        """The target's time, seconds."""
        return self._target.now_s

    @property
    def slow_down(self) -> float:
        """Fraction by which steps were longer than the baseline's, on average; 0 without any."""
        return self.in_all.taken_s / self.in_all.baseline_s - 1.0 if self.in_all.baseline_s else 0.0

    @property
    def later_cost(self) -> float:
        """Share of the time after the first minute that was lost; 0 where it was over by then."""
        return 1.0 - self.later.baseline_s / self.later.taken_s if self.later.taken_s else 0.0

    def clock(self) -> float:
        """Return the target's time, seconds."""
        return self._target.clock()

    def space(self) -> SearchSpace:
        """Return the legal configs."""
        return self._target.space()

    def baseline(self) -> Config:
        """Return the config without tuning."""
        return self._target.baseline()

    def apply(self, config: Config) -> int:
        """Switch the target."""
        return self._target.apply(config)

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield the target's windows."""
        settle_steps = spec.settle_steps
        windows = self._target.windows(spec)
        while True:
            begin_s, paused_s = self._target.now_s, self._target.paused_s
            window = next(windows, None)
            if window is None:
                return
            steps = settle_steps + len(window.step_ms)
            settle_steps = 0
            expected_s = steps * self._baseline_ms * 1e-3
            taken_s = self._target.now_s - begin_s - (self._target.paused_s - paused_s)
            self.in_all.add(taken_s, expected_s)
            if begin_s >= FIRST_MINUTE_S:
                self.later.add(taken_s, expected_s)
            yield window
