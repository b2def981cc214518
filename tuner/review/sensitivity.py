# SPDX-License-Identifier: Apache-2.0
"""Sensitivity: the effect of each parameter, with its uncertainty.

The effect of a parameter is the speed-up of its best tried value over its worst one, with all other parameters as in
one config: f(worst) - f(best) of the model, with the standard deviation of that difference. A parameter with
little evidence therefore has a wide interval, not a small effect.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import Parameter

from .surrogate import SpeedUpInterval, Surrogate

SMALL_EFFECT = 0.02
"""Effect below which a parameter is not worth a search, a fraction."""
MATTERS, MAY_MATTER, DOES_NOT_MATTER = "matters", "not known", "does not matter"


@dataclass(frozen=True)
class Slice:
    """Slice through the model along one parameter: for each value, the speed-up over the slice's central config."""

    name: str
    values: tuple[Value, ...]
    changes: tuple[SpeedUpInterval, ...]


@dataclass(frozen=True)
class Sensitivity:
    """Effect of a parameter.

    Attributes:
        name: Name of the parameter.
        best: Best of its tried values, by the model.
        worst: Worst of its tried values, by the model.
        effect: Speed-up of the best value over the worst.
        tried: Number of values tried.
        slice: Speed-ups over a grid of values, for the figure.
        drift: Size of the machine's drift that was removed from the windows, ln(step time).
    """

    name: str
    best: Value
    worst: Value
    effect: SpeedUpInterval
    tried: int
    slice: Slice
    drift: float = 0.0

    @property
    def finding(self) -> str:
        """Verdict in words: matters, does not matter, or not known.

        An effect below the drift, or too small to be worth a search, is not known to matter: one in ten intervals of
        noise alone lies above zero.
        """
        if self.effect.low > 0 and self.effect.fraction >= SMALL_EFFECT:
            return MATTERS if math.log1p(self.effect.fraction) > self.drift else MAY_MATTER
        return DOES_NOT_MATTER if self.effect.high < SMALL_EFFECT else MAY_MATTER


def sensitivities(surrogate: Surrogate, centre: Config, drift: float = 0.0) -> tuple[Sensitivity, ...]:
    """Return the effect of every parameter that varied, the largest first.

    Args:
        surrogate: Model of the run.
        centre: Config that the slices go through: the other parameters are as there.
        drift: Size of the drift that was removed from the windows, ln(step time).
    """
    found = [replace(_sensitivity(surrogate, parameter, centre), drift=drift) for parameter in surrogate.varied]
    return tuple(sorted(found, key=lambda item: -item.effect.fraction))


def _sensitivity(surrogate: Surrogate, parameter: Parameter, centre: Config) -> Sensitivity:
    tried = surrogate.tried_values(parameter)
    configs = [centre.replace({parameter.name: value}) for value in tried]
    fractions = [change.fraction for change in surrogate.changes(centre, configs)]
    best, worst = int(np.argmax(fractions)), int(np.argmin(fractions))
    grid = surrogate.slice_values(parameter)  # for the figure, over the tried range
    changes = surrogate.changes(centre, [centre.replace({parameter.name: value}) for value in grid])
    return Sensitivity(
        name=parameter.name,
        best=tried[best],
        worst=tried[worst],
        effect=surrogate.changes(configs[worst], [configs[best]])[0],
        tried=len(tried),
        slice=Slice(parameter.name, tuple(grid), tuple(changes)),
    )
