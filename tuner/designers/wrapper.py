# SPDX-License-Identifier: Apache-2.0
"""Base of a designer that wraps another one and keeps all its capabilities.

A wrapper overrides only the methods that it changes. This is the only place that checks for optional capabilities; a
missing one is replaced by its neutral value: no correlation, no config adopted before, no earlier samples.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config

from .base import Designer, JointDesigner, Prediction, Suggestion, WarmStartedDesigner


class DesignerWrapper:
    """Wrapper of a designer: forwards the protocols of `base`.

    Attributes:
        designer: The wrapped designer.
    """

    def __init__(self, designer: Designer) -> None:
        """Wrap `designer`."""
        self.designer = designer

    @property
    def name(self) -> str:
        """The name of the wrapped designer."""
        return self.designer.name

    def update(self, trials: Sequence[Trial]) -> None:
        """Replace the data by all trials so far."""
        self.designer.update(trials)

    def suggest(self) -> Suggestion:
        """Return the config to try next."""
        return self.designer.suggest()

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the posterior for `configs`; raises ValueError without a valid sample."""
        return self.designer.predict(configs)

    def covariance(self, configs: Sequence[Config]) -> NDArray[np.float64]:
        """Return the posterior covariances; configs are independent if the wrapped designer has no joint posterior.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        if isinstance(self.designer, JointDesigner):
            return self.designer.covariance(configs)
        return np.diag(np.asarray(self.designer.predict(configs).std, dtype=float) ** 2)

    @property
    def adopted_before(self) -> Config | None:
        """The config that an earlier run adopted; None if there is none, or the designer has no warm start."""
        return self.designer.adopted_before if isinstance(self.designer, WarmStartedDesigner) else None
