# SPDX-License-Identifier: Apache-2.0
"""Shrinkage: estimates of the true step times of a grid whose cells were measured a few times on a noisy machine.

The lowest of many noisy medians is lower than any config is, and which cell has it is chance. All cells together know
more: y, the ln of a cell's median, is drawn towards m, the value of an additive model of the numbers within the cell's
switches, categories and special values, by as much as the noise asks for (James and Stein 1961; Efron and Morris 1975,
"Data analysis using Stein's estimator and its generalizations"; here towards a regression):

    truth = m + w (y - m),  w = t^2 / (t^2 + s^2)

| symbol | meaning |
|---|---|
| s | standard error of y, from the differences between a cell's windows |
| t | by how much cells truly depart from the model: the measured departures, less s |

Where windows differ little, or the surface is not additive, w is near 1 and the medians stand. Scatters are taken from
medians of absolute values, so that some windows beside another program do not count.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner import Config, NumberParameter, SearchSpace, Value
from ringtune.tuner.sample import MAD_TO_STD

Array = NDArray[np.float64]
Cells = Mapping[Config, Sequence[Sequence[float]]]
MEDIAN_VARIANCE = math.pi / 2
"""Variance of a median of three values or more over that of their mean: the limit for many normal values."""


def median_ms(cells: Cells) -> dict[Config, float]:
    """Return the median of the medians of each cell's windows, milliseconds."""
    return {config: median(median(w) for w in windows) for config, windows in cells.items()}


def branch_of(config: Config, space: SearchSpace) -> tuple[Value | None, ...]:
    """Return a config's free switches, categories and special values, None for any other number."""
    return tuple(
        None if isinstance(p, NumberParameter) and config[p.name] not in p.special else config[p.name]
        for p in space.free
    )


def shrunken_ms(cells: Cells, space: SearchSpace) -> dict[Config, float]:
    """Return the estimate of each cell's true step time from all cells, milliseconds.

    Args:
        cells: Step times in milliseconds by config, a row per window.
        space: Parameters that were varied.
    """
    medians = median_ms(cells)
    window_std = _window_std(cells)
    logs = np.log(list(medians.values()))
    effects = _effects(list(cells), space)
    rank = int(np.linalg.matrix_rank(effects))
    if window_std == 0.0 or rank >= len(logs):
        return medians
    variances = [(MEDIAN_VARIANCE if count > 2 else 1.0) / count for count in map(len, cells.values())]
    errors = window_std**2 * np.array(variances)
    expected = effects @ np.linalg.lstsq(effects, logs, rcond=None)[0]
    departures = logs - expected
    seen = (MAD_TO_STD * float(np.median(np.abs(departures)))) ** 2 * len(logs) / (len(logs) - rank)
    true = max(seen - float(np.median(errors)), 0.0)
    return dict(zip(cells, np.exp(expected + true / (true + errors) * departures).tolist(), strict=True))


def _window_std(cells: Cells) -> float:
    """Return by how much ln(median step) of a config's windows scatters; 0 where no config has two."""
    logs = [[math.log(median(window)) for window in windows] for windows in cells.values()]
    differences = [abs(one - other) for ys in logs for one, other in itertools.combinations(ys, 2)]
    return MAD_TO_STD * median(differences) / math.sqrt(2.0) if differences else 0.0


def _effects(configs: Sequence[Config], space: SearchSpace) -> Array:
    """Return the additive model's columns, ones and zeros, shape (configs, effects)."""
    rows = [_effects_on(config, space) for config in configs]
    columns = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
    return np.array([[float(effect in row) for effect in columns] for row in rows])


def _effects_on(config: Config, space: SearchSpace) -> list[tuple[Value | None, ...]]:
    """Return the effects on a config: its branch, and within it the value of each number."""
    branch = branch_of(config, space)
    numbers = [p.name for p in space.free if isinstance(p, NumberParameter)]
    return [branch, *((*branch, name, config[name]) for name in numbers)]
