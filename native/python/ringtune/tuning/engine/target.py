# SPDX-License-Identifier: Apache-2.0
"""The native engine as the tuner's target: configs in, windows out."""

import threading
from typing import Protocol

from ringtune import _engine
from ringtune.errors import EngineError, RingtuneError
from ringtune.identity.fingerprints import TARGET_NAME
from ringtune.tuner import Config, SearchSpace, TargetClosed, VoidReason, Window, WindowSpec, readable_value
from ringtune.tuning.job.target import BaseTarget
from ringtune.world.engine_config import engine_config

POLL_S = 0.1  # longest delay until the end of the job is noticed, seconds; a window is handed over at once


class TunableEngine(Protocol):
    """The part of `_engine.Engine` that the target uses."""

    def apply_config(self, config: _engine.EngineConfig) -> int:
        """See `_engine.Engine`."""

    def timeline_event(self, name: str, detail: str) -> None:
        """See `_engine.Engine`."""

    def begin_window(self, epoch: int, settle_steps: int, steps: int, limit_ms: float) -> None:
        """See `_engine.Engine`."""

    def next_window(self, timeout_s: float) -> _engine.Window | None:
        """See `_engine.Engine`."""


class EngineTarget(BaseTarget):
    """Rank 0's engine as a target. Used from the tuning thread alone."""

    def __init__(self, engine: TunableEngine, space: SearchSpace, baseline: Config, closing: threading.Event) -> None:
        """Wrap a running engine.

        Args:
            engine: Rank 0's.
            space: The legal configs.
            baseline: Legal in `space`, and in force.
            closing: Set when the job ends; the target then closes within `POLL_S`.
        """
        super().__init__(TARGET_NAME, space, baseline)
        self._engine = engine
        self._closing = closing

    def apply(self, config: Config) -> int:
        """Ask for a config; return its epoch at once.

        Raises:
            TargetClosed: If the job is over.
        """
        self._check_open()
        try:
            epoch = self._engine.apply_config(engine_config(config))
            knobs = ", ".join(f"{knob} {readable_value(knob, value)}" for knob, value in config.items())
            self._engine.timeline_event("tuner_asks", f"epoch {epoch}: {knobs}")
        except RingtuneError as error:
            raise self._translated(error) from error
        return epoch

    def _window(self, spec: WindowSpec) -> Window:
        try:
            self._engine.begin_window(spec.epoch, spec.settle_steps, spec.steps, spec.limit_ms)
            while True:
                self._check_open()
                window = self._engine.next_window(POLL_S)
                if window is not None:
                    return _translated_window(window)
        except RingtuneError as error:
            raise self._translated(error) from error

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise TargetClosed("the job is over")

    def _translated(self, error: RingtuneError) -> Exception:
        """Return `TargetClosed` for an error that is the end of the job, and any other error as it is."""
        if self._closing.is_set() or isinstance(error, EngineError):
            return TargetClosed(str(error))
        return error


def _translated_window(window: _engine.Window) -> Window:
    return Window(
        epoch=window.epoch,
        step_ms=tuple(window.step_ms),
        bytes_per_step=window.bytes_per_step,
        tensor_set=window.tensor_set,
        void_reason=None if window.void_reason is None else VoidReason(window.void_reason),
        was_cut=window.was_cut,
        last_step=window.last_step,
    )
