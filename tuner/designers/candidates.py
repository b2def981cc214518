# SPDX-License-Identifier: Apache-2.0
"""Candidate configs for all designers: space-filling first configs, neighbours, and configs with redrawn parameters."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import NumberParameter, SearchSpace

Array = NDArray[np.float64]

NEIGHBOUR_STD = 0.12
"""Standard deviation of a neighbour's step, encoded units: an eighth of a range, or 1.4 octaves of `fusion_bytes`."""
MARGIN = 0.1
"""Fraction of a range, at either end, that first configs avoid."""
FLIP_SHARE = 0.15
"""Probability that a neighbour redraws a given parameter, which may flip a switch or set a special value."""
SECOND_SHARE = 0.3
"""Probability that two parameters are redrawn instead of one."""


PART_SIZE = 200
"""Number of configs of a pool that are new after each sample."""


def first_points(space: SearchSpace, count: int, seed: int) -> list[Config]:
    """Return the built-in defaults, then `count` space-filling configs."""
    points = latin_hypercube(count, len(space.free), seed)
    return [space.default(), *(space.at_quantiles(point) for point in points)]


def first_numbers(space: SearchSpace, count: int, seed: int) -> list[Config]:
    """Return the built-in defaults, then `count` configs that differ from them only in numbers.

    The numbers fill the middle of their ranges. Switches, categories and special values keep their defaults: a few
    configs are too few to vary these as well.
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
        config: Legal config at the centre.
        rng: Source of every random choice.
        step: Standard deviation of the numbers' steps, encoded units.
    """
    return neighbours(space, config, rng, 1, step)[0]


def neighbours(
    space: SearchSpace, config: Config, rng: np.random.Generator, count: int, step: float = NEIGHBOUR_STD
) -> list[Config]:
    """Return `count` neighbours; see `neighbour`."""
    vectors = (space.encode(config) + rng.normal(0.0, step, (count, space.dimension))).tolist()
    chances, quantiles = (rng.random((count, len(space.free))).tolist() for _ in range(2))
    drawn = []
    for vector, chance, quantile in zip(vectors, chances, quantiles, strict=True):
        flipped = {
            p.name: p.at_quantile(q) for p, c, q in zip(space.free, chance, quantile, strict=True) if c < FLIP_SHARE
        }
        drawn.append(space.decode(vector).replace(flipped))
    return drawn


class RandomPool:
    """Random configs, a part of which is new after each sample: drawing and encoding all anew would take too long."""

    def __init__(self, space: SearchSpace, seed: int, parts: int) -> None:
        """Prepare a pool of `parts` parts; `seed` determines every draw."""
        self._space = space
        self._seed = seed
        self._parts = parts
        self._part = lru_cache(maxsize=parts)(self._drawn)

    def after(self, samples: int) -> list[Config]:
        """Return the configs of the pool after a number of samples."""
        return [config for number in range(self._parts) for config in self._part(samples + number)]

    def _drawn(self, number: int) -> list[Config]:
        rng = np.random.default_rng([self._seed, number])
        return [self._space.random(rng) for _ in range(PART_SIZE)]


def redrawn(space: SearchSpace, config: Config, rng: np.random.Generator) -> Config:
    """Return `config` with one parameter, sometimes two, redrawn from all allowed values."""
    count = min(1 + int(rng.random() < SECOND_SHARE), len(space.free))
    ranks = rng.random(len(space.free)).tolist()
    picked = sorted(zip(ranks, space.free, strict=True), key=lambda pair: pair[0])[:count]
    drawn = {parameter.name: parameter.at_quantile(rng.random()) for _, parameter in picked}
    return config.replace({**space.fixed, **drawn})


def latin_hypercube(count: int, dimension: int, seed: int) -> Array:
    """Return a Latin hypercube sample: each of the `count` equal parts of an axis holds one point.

    Args:
        count: Number of points.
        dimension: Number of coordinates.
        seed: Seed of every random choice.

    Returns:
        Points, shape (count, dimension), in [0, 1).
    """
    rng = np.random.default_rng(seed)
    parts = np.array([rng.permutation(count) for _ in range(dimension)]).reshape(dimension, count).T
    points: Array = (parts + rng.random((count, dimension))) / count
    return points
