# SPDX-License-Identifier: Apache-2.0
"""Asks a designer again and again, and answers without noise."""

import math
from collections.abc import Sequence

from ringtune.tuner import Config, Designer
from ringtune.tuner.testing import Surface, measured_trial


def asked(designer: Designer, rounds: int, surface: Surface, measured: Sequence[Config] = ()) -> list[Config]:
    """Return the designer's suggestions; a config that comes again adds a sample to its trial.

    Args:
        designer: A new one.
        rounds: Number of times that it is asked.
        surface: Surface that gives the scores.
        measured: Configs that have a sample before.
    """
    step_ms = {config: [math.exp(surface(config))] for config in measured}
    suggested = []
    for _ in range(rounds):
        designer.update([measured_trial(i, config, times) for i, (config, times) in enumerate(step_ms.items())])
        config = designer.suggest().config
        suggested.append(config)
        step_ms.setdefault(config, []).append(math.exp(surface(config)))
    return suggested
