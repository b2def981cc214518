# SPDX-License-Identifier: Apache-2.0
"""Which parameter mattered, and how sure that is.

The effect of a parameter is the speed-up of its best value over its worst, of the values that were tried, with all
other parameters as in one config: f(worst) - f(best) of the model's slice, with that difference's standard deviation.
So a parameter about which the windows say little has a wide interval, and not a small effect.
"""

from dataclasses import dataclass

import numpy as np

from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import Parameter

from .surrogate import Change, Surrogate

SMALL_EFFECT = 0.02
"""An effect that is surely below this is not worth a search."""
MATTERS, MAY_MATTER, DOES_NOT_MATTER = "matters", "not known", "does not matter"


@dataclass(frozen=True)
class Slice:
    """A parameter alone: for each value the speed-up over the config that the slice goes through."""

    name: str
    values: tuple[Value, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Sensitivity:
    """The effect of a parameter.

    Attributes:
        name: The parameter.
        best: The best of its values, by the model.
        worst: The worst.
        effect: Speed-up of the best over the worst.
        tried: Number of values tried.
        slice: All values.
    """

    name: str
    best: Value
    worst: Value
    effect: Change
    tried: int
    slice: Slice

    @property
    def finding(self) -> str:
        """Whether it matters, in words."""
        if self.effect.low > 0:
            return MATTERS
        return DOES_NOT_MATTER if self.effect.high < SMALL_EFFECT else MAY_MATTER


def sensitivities(surrogate: Surrogate, centre: Config) -> tuple[Sensitivity, ...]:
    """Return the effect of every parameter that varied, others as in `centre`, the largest first."""
    found = [_sensitivity(surrogate, parameter, centre) for parameter in surrogate.varied]
    return tuple(sorted(found, key=lambda item: -item.effect.fraction))


def _sensitivity(surrogate: Surrogate, parameter: Parameter, centre: Config) -> Sensitivity:
    values = surrogate.slice_values(parameter)
    configs = [centre.replace({parameter.name: value}) for value in values]
    changes = surrogate.changes(centre, configs)
    fractions = [change.fraction for change in changes]
    best, worst = int(np.argmax(fractions)), int(np.argmin(fractions))
    return Sensitivity(
        name=parameter.name,
        best=values[best],
        worst=values[worst],
        effect=surrogate.changes(configs[worst], [configs[best]])[0],
        tried=len({config[parameter.name] for config in surrogate.configs}),
        slice=Slice(parameter.name, tuple(values), tuple(changes)),
    )
