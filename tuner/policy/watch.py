# SPDX-License-Identifier: Apache-2.0
"""The watch over what was decided: a window now and then of the config in force, until something has changed.

It switches nothing, and between its looks it reads nothing: the job trains as if there were no tuner.
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
"""Between two looks: about a megabyte of the log a day, and a drift is noticed after three minutes."""


class Event(Enum):
    """What calls a decision into question."""

    DRIFT = "step times have moved"
    TENSOR_SET = "the job reduces other tensors"


@dataclass(frozen=True)
class Change:
    """What has changed.

    Attributes:
        event: What.
        ratio: Step time now over what it was when the watch began.
    """

    event: Event
    ratio: float = 1.0

    def __str__(self) -> str:
        """Say it in a few words."""
        if self.event is Event.DRIFT:
            return f"step times have changed by {100 * (self.ratio - 1):+.1f} % since the decision"
        return f"{self.event.value} than before the decision"


class Watch:
    """Looks until there is something to see."""

    def __init__(self, meter: Meter, book: TrialBook, steps: int, fallback: Config) -> None:
        """Watch what is in force, in windows of `steps` steps; `fallback`, where the run could bring nothing in force.

        The target may have refused that too, and is then asked again at every look.
        """
        self._meter = meter
        self._book = book
        self._steps = steps
        self._fallback = fallback

    def wait(
        self, rest: Callable[[float], object], may_act: Callable[[], bool], pending: Change | None = None
    ) -> Change:
        """Return what has changed, once it may be acted upon; see `TuningRun.watch`.

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
        """Take one window; void ones, for pauses and the like, say nothing."""
        config = self._config_in_force()
        if config is None:
            return None
        order = Order(config, self._book.id_of(config), Phase.WATCH, self._steps)
        try:
            sample = self._meter.measure(order, repeats=0)
        except TensorSetChanged:
            return Change(Event.TENSOR_SET)
        if sample.valid:
            detector.add(sample.step_times.median)
        return Change(Event.DRIFT, detector.ratio) if detector.has_moved else None

    def _config_in_force(self) -> Config | None:
        """Return the config to look at, None while the target takes none; raise TargetClosed when the job is over."""
        if self._meter.in_force is None:
            try:
                self._meter.switch(self._fallback)
            except TargetClosed:
                raise
            except Exception:  # noqa: BLE001 - whatever a target raises: the run has said so, the next is to try again
                return None
        return self._meter.in_force
