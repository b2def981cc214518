# SPDX-License-Identifier: Apache-2.0
"""Builds windows from the ends of steps, by the rules of the engine's `window_builder.cpp`. Knows no clock."""

from collections import deque
from dataclasses import dataclass

from ringtune.tuner import VoidReason, Window, WindowSpec, is_over_limit
from ringtune.tuner.pauses import RECENT_STEPS, is_pause


@dataclass(frozen=True)
class StepEnd:
    """The end of a step.

    Attributes:
        step: Its number; consecutive.
        end_s: On a steady clock, seconds.
        epoch: The config epoch that the step ran under.
    """

    step: int
    end_s: float
    epoch: int


class WindowBuilder:
    """Builds one window at a time; the median of recent steps is kept over all of them.

    Attributes:
        bytes_per_step: Gradient bytes reduced per step.
        tensor_set: Hash of the multiset of (dtype, shape).
    """

    def __init__(self, bytes_per_step: int, tensor_set: int) -> None:
        """Begin without a window; see the attributes."""
        self.bytes_per_step = bytes_per_step
        self.tensor_set = tensor_set
        self._spec: WindowSpec | None = None
        self._step_ms: list[float] = []
        self._settled = 0
        self._previous: StepEnd | None = None
        self._recent_ms: deque[float] = deque(maxlen=RECENT_STEPS)

    def begin(self, spec: WindowSpec) -> None:
        """Open a window; one that was open is dropped."""
        self._spec, self._step_ms, self._settled = spec, [], 0

    def add(self, end: StepEnd) -> Window | None:
        """Take a step in; return the window, valid or void, that it closed.

        Ends come in their order. Where some were lost the window begins again.
        """
        previous, self._previous = self._previous, end
        if previous is None or previous.step + 1 != end.step:
            self._step_ms, self._settled = [], 0
            return None
        step_ms = (end.end_s - previous.end_s) * 1e3
        was_pause = is_pause(step_ms, self._recent_ms)
        if not was_pause:
            self._recent_ms.append(step_ms)
        # Nothing counts before a whole step has passed under the epoch: the step of the switch belongs to neither.
        if self._spec is None or previous.epoch < self._spec.epoch:
            return None
        return self._measure(self._spec, end.epoch, step_ms, was_pause=was_pause)

    def _measure(self, spec: WindowSpec, epoch: int, step_ms: float, *, was_pause: bool) -> Window | None:
        if epoch != spec.epoch:
            return self._close(spec, VoidReason.MIXED_EPOCHS)
        if self._settled < spec.settle_steps:
            self._settled += 1
            return None
        if was_pause:
            return self._close(spec, VoidReason.PAUSE)
        self._step_ms.append(step_ms)
        is_full = len(self._step_ms) >= spec.steps
        is_cut = not is_full and is_over_limit(self._step_ms, spec.limit_ms)
        return self._close(spec, None, was_cut=is_cut) if is_full or is_cut else None

    def _close(self, spec: WindowSpec, reason: VoidReason | None, *, was_cut: bool = False) -> Window:
        step_ms, self._step_ms, self._spec = tuple(self._step_ms), [], None
        last_step = None if self._previous is None else self._previous.step
        return Window(spec.epoch, step_ms, self.bytes_per_step, self.tensor_set, reason, was_cut, last_step)
