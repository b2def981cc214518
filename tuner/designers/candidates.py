# SPDX-License-Identifier: Apache-2.0
"""Configs to begin with, and configs near another one: what designers share."""

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import NumberParameter, SearchSpace

Array = NDArray[np.float64]

NEIGHBOUR_STD = 0.12
"""Step of a neighbour in encoded units: an eighth of a range, about an octave of `fusion_bytes`."""
MARGIN = 0.1
"""Of a range, at either end, that first configs leave out."""
FLIP_SHARE = 0.15
"""Chance that a neighbour differs in a switch, a category or in being special."""

SECOND_SHARE = 0.3
"""Chance that two parameters are drawn anew, not one."""


def first_points(space: SearchSpace, count: int, seed: int) -> list[Config]:
    """Return the built-in defaults, then `count` configs that spread over the space."""
    points = latin_hypercube(count, len(space.free), seed)
    return [space.default(), *(space.at_quantiles(point) for point in points)]


def first_numbers(space: SearchSpace, count: int, seed: int) -> list[Config]:
    """Return the built-in defaults, then `count` configs that differ from them in their numbers alone.

    The numbers spread over the middle of their ranges; switches, categories and special values have a default for a
    reason, and of a few configs none is left for them.
    """
    numbers = [p for p in space.free if isinstance(p, NumberParameter) and p.default not in p.special]
    points = MARGIN + (1.0 - 2.0 * MARGIN) * latin_hypercube(count, len(numbers), seed)
    configs = [space.default()]
    for point in points:
        coordinates = [[*(0.0 for _ in p.special), share] for p, share in zip(numbers, point, strict=True)]
        values = {p.name: p.decode(place) for p, place in zip(numbers, coordinates, strict=True)}
        configs.append(space.default().replace(values))
    return configs


def neighbour(space: SearchSpace, config: Config, rng: np.random.Generator, step: float = NEIGHBOUR_STD) -> Config:
    """Return `config` with small steps in its numbers, and rarely another switch or special value.

    Args:
        space: The legal configs.
        config: One of them.
        rng: Decides.
        step: Standard deviation of the numbers' steps, in encoded units.
    """
    return neighbours(space, config, rng, 1, step)[0]


def neighbours(
    space: SearchSpace, config: Config, rng: np.random.Generator, count: int, step: float = NEIGHBOUR_STD
) -> list[Config]:
    """Return several of the same; see `neighbour`."""
    vectors = (space.encode(config) + rng.normal(0.0, step, (count, space.dimension))).tolist()
    chances, quantiles = (rng.random((count, len(space.free))).tolist() for _ in range(2))
    drawn = []
    for vector, chance, quantile in zip(vectors, chances, quantiles, strict=True):
        flipped = {
            p.name: p.at_quantile(q) for p, c, q in zip(space.free, chance, quantile, strict=True) if c < FLIP_SHARE
        }
        drawn.append(space.decode(vector).replace(flipped))
    return drawn


def redrawn(space: SearchSpace, config: Config, rng: np.random.Generator) -> Config:
    """Return `config` with one of its parameters, rarely two, drawn anew from all that is allowed."""
    count = min(1 + int(rng.random() < SECOND_SHARE), len(space.free))
    ranks = rng.random(len(space.free)).tolist()
    picked = sorted(zip(ranks, space.free, strict=True), key=lambda pair: pair[0])[:count]
    drawn = {parameter.name: parameter.at_quantile(rng.random()) for _, parameter in picked}
    return config.replace({**space.fixed, **drawn})


def latin_hypercube(count: int, dimension: int, seed: int) -> Array:
    """Return points of which each axis has one in every `count`-th part.

    Args:
        count: Number of points.
        dimension: Coordinates of each.
        seed: Decides the points.

    Returns:
        Shape (count, dimension), in [0, 1).
    """
    rng = np.random.default_rng(seed)
    parts = np.array([rng.permutation(count) for _ in range(dimension)]).reshape(dimension, count).T
    points: Array = (parts + rng.random((count, dimension))) / count
    return points
