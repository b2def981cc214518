# SPDX-License-Identifier: Apache-2.0
"""Designer watchdog: protects training from a designer that raises, returns nonsense or never returns."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ringtune.system.deadlines import DeadlineExceeded, call_with_deadline
from ringtune.tuner.designers.base import Designer, Prediction, Suggestion
from ringtune.tuner.designers.wrapper import DesignerWrapper
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace, SpaceError
from ringtune.tuner.targets import TargetClosed

from .value import Posterior

T = TypeVar("T")

PATIENCE = 10.0
"""Wall-clock limit, as a multiple of the CPU limit, for a designer thread that is blocked or starved."""
POLL_S = 0.25
"""Interval between two checks of the deadline, seconds; a designer may exceed it by as much."""
LONGEST_LOOK_S = 1.0
"""Maximum time counted between two checks, seconds; any longer gap means that the process was suspended."""


class DesignerFailed(Exception):  # noqa: N818 - reads as the event it is
    """The designer can no longer be used in this run; the message gives the reason."""


@dataclass(frozen=True)
class Advice:
    """Designer's answer after an update with all trials.

    Attributes:
        suggestion: The config to try next.
        incumbent: The measured config with the best posterior mean.
        expected_gain: Expected gain of the incumbent, ln(baseline / incumbent); 0 if it is the baseline.
        ask_ms: Duration of the designer's answer, milliseconds.
        log_step_ms: Predicted ln(step time in ms) of the suggestion.
        posterior: Posterior of the measured configs and the suggestion; None without standard deviations.
    """

    suggestion: Suggestion
    incumbent: Config
    expected_gain: float
    ask_ms: float
    log_step_ms: float
    posterior: Posterior | None = None


class GuardedDesigner:
    """Guarded designer: calls a designer in a daemon thread with a deadline, and validates its answers."""

    def __init__(
        self,
        designer: Designer,
        space: SearchSpace,
        deadline_s: float,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Guard `designer`; each call may take `deadline_s` seconds of CPU time.

        Once `is_over` returns True, a call no longer waits for the answer.
        """
        self._designer = DesignerWrapper(designer)
        self._space = space
        self._deadline_s = deadline_s
        self._is_over = is_over

    @property
    def name(self) -> str:
        """The designer's name, always as text."""
        designer = self._designer.designer
        return str(getattr(designer, "name", type(designer).__name__))

    def advise(self, trials: Sequence[Trial], measured: Sequence[Config]) -> Advice:
        """Update the designer with all trials and ask for the next config.

        Args:
            trials: All trials so far.
            measured: The configs with a valid sample, the baseline first.

        Raises:
            DesignerFailed: If it raises, returns nonsense or does not return in time.
        """
        began_s = time.monotonic()

        def think() -> tuple[Suggestion, Prediction, NDArray[np.float64]]:
            self._designer.update(trials)
            suggestion = self._checked_suggestion(self._designer.suggest())
            configs = [*measured, suggestion.config]
            prediction = self._checked_prediction(self._designer.predict(configs), len(configs))
            covariance = self._designer.covariance(configs)
            matrix = _finite(covariance, (len(configs), len(configs)))
            if matrix is None:
                nonsense = f"{len(configs)} configs: {covariance!r:.200}"
                raise DesignerFailed(f"designer {self.name} knows no covariance of {nonsense}")
            return suggestion, prediction, matrix

        suggestion, prediction, covariance = self._call(think)
        means = prediction.mean_log_step_ms
        ask_ms = (time.monotonic() - began_s) * 1e3
        best = int(np.argmin(means[:-1]))
        is_sure = bool(suggestion.expected_std) and prediction.std[-1] > 0
        posterior = Posterior(means, covariance) if is_sure else None
        gain, expected = float(means[0] - means[best]), float(means[-1])
        return Advice(suggestion, measured[best], gain, ask_ms, expected, posterior)

    def adopted_before(self, trials: Sequence[Trial]) -> Config | None:
        """Update the designer with all trials and return the config that an earlier run adopted; None if there is none.

        Raises:
            DesignerFailed: If it raises, returns nonsense or does not return in time.
        """

        def think() -> Config | None:
            self._designer.update(trials)
            adopted = self._designer.adopted_before
            return adopted if adopted is not None and self._space.contains(adopted) else None

        return self._call(think)

    def predict(self, trials: Sequence[Trial], configs: Sequence[Config]) -> Prediction:
        """Update the designer with all trials and return its finite prediction for `configs`.

        Raises:
            DesignerFailed: If it raises, returns nonsense or does not return in time.
        """

        def think() -> object:
            self._designer.update(trials)
            return self._designer.predict(configs)

        return self._checked_prediction(self._call(think), len(configs))

    def _call(self, think: Callable[[], T]) -> T:
        def named() -> T:
            try:
                return think()
            except DesignerFailed:
                raise
            except BaseException as error:
                raise DesignerFailed(f"designer {self.name} raised {error!r}") from error

        deadline = _CpuDeadline(self._deadline_s, self._is_over)
        try:
            return call_with_deadline(named, deadline, "ringtune-designer")
        except DeadlineExceeded:
            if self._is_over():
                raise TargetClosed("the job ended while the designer was thinking") from None
            raise DesignerFailed(f"designer {self.name} did not answer within {self._deadline_s:g} s") from None

    def _checked_suggestion(self, suggestion: object) -> Suggestion:
        if not isinstance(suggestion, Suggestion):
            raise DesignerFailed(f"designer {self.name} suggested a {type(suggestion).__name__}, not a Suggestion")
        try:
            config = self._space.validate(suggestion.config)
            score, std = _float_or_none(suggestion.expected_score), _float_or_none(suggestion.expected_std)
        except SpaceError as error:
            raise DesignerFailed(f"designer {self.name} suggested a config that is not allowed: {error}") from error
        except Exception as error:
            raise DesignerFailed(f"designer {self.name} suggested nonsense: {error!r}") from error
        return Suggestion(config, score, std)

    def _checked_prediction(self, prediction: object, count: int) -> Prediction:
        if isinstance(prediction, Prediction):
            mean, std = (_finite(array, (count,)) for array in (prediction.mean_log_step_ms, prediction.std))
            if mean is not None and std is not None:
                return Prediction(mean, std)
        raise DesignerFailed(f"designer {self.name} predicted nonsense for {count} configs: {prediction!r:.200}")


class _CpuDeadline:
    """CPU time limit of the designer's thread: on a crowded machine the wall clock measures other processes."""

    def __init__(self, limit_s: float, is_job_over: Callable[[], bool]) -> None:
        self.poll_s = min(POLL_S, limit_s)
        self._limit_s = limit_s
        self._patience_s = PATIENCE * limit_s
        self._is_job_over = is_job_over
        self._looked_s = time.monotonic()
        self._clock: int | None = None

    def start(self) -> None:
        """Start the clock; call this in the designer's thread."""
        self._clock = time.pthread_getcpuclockid(threading.get_ident())

    def is_exceeded(self) -> bool:
        """Return whether to give up: the CPU limit or the wall-clock limit is reached, or the job is over."""
        now_s = time.monotonic()
        self._patience_s -= min(now_s - self._looked_s, LONGEST_LOOK_S)
        self._looked_s = now_s
        if self._patience_s <= 0 or self._is_job_over():
            return True
        try:
            return self._clock is not None and time.clock_gettime(self._clock) >= self._limit_s
        except OSError:  # the thread has just ended, and its answer is ready
            return False


def _finite(numbers: object, shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """Return an array of this shape; None if the numbers have another shape, or are not finite."""
    try:
        array = np.asarray(numbers, dtype=float)
    except (TypeError, ValueError):
        return None
    return array if array.shape == shape and np.all(np.isfinite(array)) else None


def _float_or_none(number: float | None) -> float | None:
    return None if number is None or not np.isfinite(number) else float(number)
