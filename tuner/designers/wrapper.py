# SPDX-License-Identifier: Apache-2.0
"""The base of a designer that stands before another one: it can do all that the other can.

A wrapper overrides what it changes. Capabilities that not every designer has are asked for here and nowhere else; a
designer that lacks one gets the answer that says least.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config

from .base import Designer, ExperiencedDesigner, JointDesigner, Prediction, Suggestion


class DesignerWrapper:
    """Forwards the whole protocol of `Designer`, `JointDesigner` and `ExperiencedDesigner`.

    Attributes:
        designer: The designer behind this one.
    """

    def __init__(self, designer: Designer) -> None:
        """Stand before `designer`."""
        self.designer = designer

    @property
    def name(self) -> str:
        """The designer's name."""
        return self.designer.name

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials so far."""
        self.designer.update(trials)

    def suggest(self) -> Suggestion:
        """Return the config to try next."""
        return self.designer.suggest()

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return what the trials say about `configs`; raises ValueError without a valid sample."""
        return self.designer.predict(configs)

    def covariance(self, configs: Sequence[Config]) -> NDArray[np.float64]:
        """Return the posterior covariances; of a designer that knows none, the configs are independent.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        if isinstance(self.designer, JointDesigner):
            return self.designer.covariance(configs)
        return np.diag(np.asarray(self.designer.predict(configs).std, dtype=float) ** 2)

    @property
    def adopted_before(self) -> Config | None:
        """What an earlier run has adopted; None where nothing was, or the designer does not know."""
        return self.designer.adopted_before if isinstance(self.designer, ExperiencedDesigner) else None
