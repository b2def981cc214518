# SPDX-License-Identifier: Apache-2.0
"""scikit-optimize's own optimizer behind the designers that leave everything to it.

Its portfolio of acquisition functions, `gp_hedge`, learns from every sample which one to trust: the optimizer lives on
and gets one sample after the other.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ringtune.tuner.designers.single_threaded import single_threaded
from ringtune.tuner.sample import Sample, Trial

if TYPE_CHECKING:
    from skopt import Optimizer

Told = tuple[list[Any], float]
"""A point of the optimizer's space, and its cost."""


class SkoptOptimizer:
    """An optimizer that is told each sample once, and starts anew when the samples it was told are no more."""

    def __init__(self, options: Callable[[], dict[str, Any]], told: Callable[[Sample], Told]) -> None:
        """Start without samples.

        Args:
            options: Returns the optimizer's arguments; called when it is first needed.
            told: Returns the value of a valid sample for the optimizer.
        """
        self._options = options
        self._told_of = told
        self._optimizer: Optimizer | None = None
        self._known: dict[int, tuple[Sample, ...]] = {}

    def ask_after(self, trials: Sequence[Trial]) -> list[Any]:
        """Return the point that it wants next, once it knows the trials' valid samples."""
        valid = {trial.trial_id: tuple(sample for sample in trial.samples if sample.valid) for trial in trials}
        with single_threaded():
            if self._optimizer is None or not self._goes_on(valid):
                self._optimizer, self._known = _new_optimizer(self._options()), {}
            for number, samples in valid.items():
                for sample in samples[len(self._known.get(number, ())) :]:
                    self._optimizer.tell(*self._told_of(sample))
            self._known = valid
            return list(self._optimizer.ask())

    def _goes_on(self, valid: dict[int, tuple[Sample, ...]]) -> bool:
        return all(samples == valid.get(number, ())[: len(samples)] for number, samples in self._known.items())


def _new_optimizer(options: dict[str, Any]) -> "Optimizer":
    # scikit-learn takes seconds to import: only when a designer works, in its own thread.
    from skopt import Optimizer  # noqa: PLC0415

    return Optimizer(**options)
