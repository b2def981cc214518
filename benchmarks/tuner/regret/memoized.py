# SPDX-License-Identifier: Apache-2.0
"""Memoized designer: runs of one seed at several budgets begin with the same windows, and think once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner import Config, Trial
from ringtune.tuner.designers import DesignerWrapper, Prediction, Suggestion
from ringtune.tuner.designers.gp import GaussianProcessDesigner

Array = NDArray[np.float64]
Asked = tuple[tuple[Trial, ...], tuple[Config, ...]]
"""All trials, and configs."""


class MemoizedDesigner(DesignerWrapper):
    """Cache of another designer's answers, which depend on the trials alone."""

    def __init__(self, designer: GaussianProcessDesigner) -> None:
        """Pass new questions to `designer`."""
        super().__init__(designer)
        self._trials: tuple[Trial, ...] = ()
        self._suggestions: dict[tuple[Trial, ...], Suggestion] = {}
        self._predictions: dict[Asked, Prediction] = {}
        self._covariances: dict[Asked, Array] = {}

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials so far; the designer gets them when it has to answer."""
        self._trials = tuple(trials)

    @property
    def adopted_before(self) -> Config | None:
        """The config that an earlier run adopted, according to the designer."""
        super().update(self._trials)
        return super().adopted_before

    def suggest(self) -> Suggestion:
        """Return the config to try next."""
        if self._trials not in self._suggestions:
            super().update(self._trials)
            self._suggestions[self._trials] = super().suggest()
        return self._suggestions[self._trials]

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the posterior of `configs` under the trials."""
        query = self._trials, tuple(configs)
        if query not in self._predictions:
            super().update(self._trials)
            self._predictions[query] = super().predict(configs)
        return self._predictions[query]

    def covariance(self, configs: Sequence[Config]) -> Array:
        """Return the posterior covariance of `configs` under the trials."""
        query = self._trials, tuple(configs)
        if query not in self._covariances:
            super().update(self._trials)
            self._covariances[query] = super().covariance(configs)
        return self._covariances[query]
