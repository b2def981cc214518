# SPDX-License-Identifier: Apache-2.0
"""Single changes of the best config, in knobs that the search has not varied near it.

A model may blame a switch for what its neighbours did: where the only configs with it were slow or failed for another
reason, the process is sure that it does harm, and never turns it on beside the good values of the others. One change
of the best config settles that. A knob counts as varied once a tried config is far from the best one in it, and in at
most one knob more.
"""

from collections.abc import Collection, Iterator

from ringtune.tuner.space.config import Config
from ringtune.tuner.space.parameter_types import Parameter
from ringtune.tuner.space.search_space import SearchSpace

VALUES = 16
"""Most values of a knob that are looked at, evenly spread."""
MOST_FAR = 2
"""Most knobs in which a tried config near the best one is far from it."""
FAR = 0.2
"""Distance between two values of a knob that are far from each other, encoded units; the whole range is 1."""


def single_changes(space: SearchSpace, best: Config, tried: Collection[Config]) -> list[Config]:
    """Return the untried configs that are far from the best one in a single knob, which was not varied near it.

    Args:
        space: The legal configs.
        best: The best config so far.
        tried: All configs tried so far, those that failed, too.
    """
    changes = (
        config
        for parameter in _unvaried(space, best, tried)
        for config in _values_of(space, best, parameter)
        if _is_far(parameter, best, config)
    )
    return [config for config in dict.fromkeys(changes) if config not in tried]


def _unvaried(space: SearchSpace, best: Config, tried: Collection[Config]) -> list[Parameter]:
    """Return the knobs that were not varied near the best config."""
    distant = ([p.name for p in space.free if _is_far(p, best, config)] for config in tried)
    varied = {name for names in distant if len(names) <= MOST_FAR for name in names}
    return [parameter for parameter in space.free if parameter.name not in varied]


def _values_of(space: SearchSpace, best: Config, parameter: Parameter) -> Iterator[Config]:
    """Yield the best config with each value of a knob that is looked at."""
    for place in range(VALUES):
        yield best.replace({**space.fixed, parameter.name: parameter.at_quantile((place + 0.5) / VALUES)})


def _is_far(parameter: Parameter, first: Config, second: Config) -> bool:
    """Return whether two configs are far from each other in a knob."""
    one, other = parameter.encode(first[parameter.name]), parameter.encode(second[parameter.name])
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) > FAR
