# SPDX-License-Identifier: Apache-2.0
"""Watch over a decision: measure a window of the config in force at intervals, until a change is detected.

The watch switches no config and reads nothing between its windows: the job trains as if there were no tuner.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ringtune.tuner.sample import Phase
from ringtune.tuner.space.config import Config
from ringtune.tuner.statistics.drift import DriftDetector
from ringtune.tuner.targets import TargetClosed

from .measuring import Meter, Order, TensorSetChanged
from .trials import TrialBook

LOOK_EVERY_S = 30.0
"""Interval between two windows, seconds: about a megabyte of log a day, and drift is detected after three minutes."""


class ChangeKind(Enum):
    """Kind of change that calls a decision into question."""

    DRIFT = "step times have moved"
    TENSOR_SET = "the job reduces other tensors"


@dataclass(frozen=True)
class Change:
    """Detected change.

    Attributes:
        kind: Kind of the change.
        ratio: Current step time divided by that at the start of the watch.
    """

    kind: ChangeKind
    ratio: float = 1.0

    def __str__(self) -> str:
        """Return a description in a few words."""
        if self.kind is ChangeKind.DRIFT:
            return f"step times have changed by {100 * (self.ratio - 1):+.1f} % since the decision"
        return f"{self.kind.value} than before the decision"


class DecisionWatch:
    """Watch over the config in force, which ends at the first change."""

    def __init__(self, meter: Meter, book: TrialBook, steps: int, fallback: Config) -> None:
        """Watch the config in force in windows of `steps` steps, or `fallback` if the run could bring none in force.

        The target may have refused the fallback as well; the watch then requests it again before every window.
        """
        self._meter = meter
        self._book = book
        self._steps = steps
        self._fallback = fallback

    def wait(
        self, rest: Callable[[float], object], may_act: Callable[[], bool], pending: Change | None = None
    ) -> Change:
        """Return the change once a response to it is allowed; see `TuningRun.watch`.

        Raises:
            TargetClosed: If the job is over.
        """
        detector = DriftDetector()
        while True:
            rest(LOOK_EVERY_S)
            change = self._look(detector) or pending
            if change is not None and may_act():
                return change

    def _look(self, detector: DriftDetector) -> Change | None:
        """Measure one window and return the change that it reveals; a void window reveals none."""
        config = self._config_in_force()
        if config is None:
            return None
        order = Order(config, self._book.id_of(config), Phase.WATCH, self._steps)
        try:
            sample = self._meter.measure(order, repeats=0)
        except TensorSetChanged:
            return Change(ChangeKind.TENSOR_SET)
        if sample.valid:
            detector.add(sample.step_times.median)
        return Change(ChangeKind.DRIFT, detector.ratio) if detector.has_moved else None

    def _config_in_force(self) -> Config | None:
        """Return the config to measure, None while the target accepts none; raise TargetClosed if the job is over."""
        if self._meter.in_force is None:
            try:
                self._meter.switch(self._fallback)
            except TargetClosed:
                raise
            except Exception:  # noqa: BLE001 - the run has reported the target's failure; retry at the next window
                return None
        return self._meter.in_force
