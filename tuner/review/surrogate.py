# SPDX-License-Identifier: Apache-2.0
"""Surrogate model of a run: the tuner's Gaussian process, fitted again to all windows of the finished log.

A cost model or an earlier study may have guided the search, but the review uses no such prior: it rests on this log's
windows alone. All results are differences between two configs, with the standard deviation of the difference.

| symbol | meaning |
|---|---|
| f | noise-free ln(step time); ln(seconds per byte) if the log has no step times |
| f(a) - f(b) | gain of b over a; 0.02 is a speed-up of 2 % |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.gp import Observations, Points
from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import NumberParameter, Parameter
from ringtune.tuner.space.search_space import SearchSpace
from ringtune.tuner.statistics.paired_test import CI_LEVEL
from ringtune.tuner.statistics.window_interval import MOST_LOG_GAIN

from .spaces import space_of
from .summary import RunReview, TriedSample
from .windows import window_variance

if TYPE_CHECKING:
    from ringtune.tuner.gp.process import GaussianProcess

Array = NDArray[np.float64]

MAX_WINDOWS = 120
"""Maximum number of fitted windows, because the fit takes cubic time; beyond it only each config's first are used."""
MIN_WINDOWS = 4
SLICE_POINTS = 17
CONFIDENCE_STDS = NormalDist().inv_cdf(0.5 + CI_LEVEL / 2)
"""Half width of an interval at CI_LEVEL, in standard deviations."""


@dataclass(frozen=True)
class SpeedUpInterval:
    """Speed-up as a fraction, with a two-sided 90 % interval; above zero steps are shorter, below zero longer."""

    fraction: float
    low: float
    high: float

    @classmethod
    def of(cls, mean: float, std: float) -> "SpeedUpInterval":
        """Return the speed-up for a difference ln(step time before) - ln(step time after)."""
        margin = CONFIDENCE_STDS * std
        values = np.expm1(np.minimum([mean, mean - margin, mean + margin], MOST_LOG_GAIN))
        return cls(float(values[0]), float(values[1]), float(values[2]))


class Surrogate:
    """Surrogate model of one run.

    Attributes:
        space: Search space of the configs.
        configs: Configs with windows that count, in the order of measurement.
        window_count: Number of fitted windows.
    """

    def __init__(self, space: SearchSpace, process: "GaussianProcess", configs: Sequence[Config], windows: int) -> None:
        """Wrap a fitted process; see `fit_surrogate`."""
        self.space = space
        self.configs = tuple(configs)
        self.window_count = windows
        self._process = process

    @property
    def noise(self) -> float:
        """Standard deviation of ln(step time) between windows of one config that their steps do not explain."""
        return self._process.parameters.noise

    @property
    def best(self) -> Config:
        """Tried config with the shortest expected step."""
        mean, _ = self._process.predict(self._points(self.configs))
        return self.configs[int(np.argmin(mean))]

    def log_time(self, config: Config) -> float:
        """Return the expected ln(step time) of a legal config."""
        mean, _ = self._process.predict(self._points([config]))
        return float(mean[0])

    def changes(self, reference: Config, configs: Sequence[Config]) -> list[SpeedUpInterval]:
        """Return the speed-up of each config over the reference; all must be legal."""
        return [SpeedUpInterval.of(*pair) for pair in self.gains(reference, configs)]

    def gains(self, reference: Config, configs: Sequence[Config]) -> list[tuple[float, float]]:
        """Return mean and standard deviation of f(reference) - f(config) for each config; all must be legal."""
        joint = self._process.joint(self._points([reference]), self._points(configs))
        variance = joint.variances + joint.within[0, 0] - 2.0 * joint.between[0]
        std = np.sqrt(np.maximum(variance, 0.0))
        return list(zip((joint.measured[0] - joint.candidates).tolist(), std.tolist(), strict=True))

    def posterior(self, configs: Sequence[Config]) -> tuple[Array, Array]:
        """Return the means of f at legal configs, shape (m,), and their covariances, shape (m, m)."""
        points = self._points(configs)
        return self._process.predict(points)[0], self._process.covariance(points)

    @property
    def varied(self) -> tuple[Parameter, ...]:
        """Parameters of which several values were tried."""
        return tuple(p for p in self.space.free if len({config[p.name] for config in self.configs}) > 1)

    def tried_values(self, parameter: Parameter) -> list[Value]:
        """Return the values of a parameter that were tried, in the order of measurement."""
        return list(dict.fromkeys(config[parameter.name] for config in self.configs))

    def slice_values(self, parameter: Parameter) -> list[Value]:
        """Return values over the tried range, special values first."""
        tried = self.tried_values(parameter)
        if not isinstance(parameter, NumberParameter):
            return sorted(tried, key=str)
        special = [value for value in parameter.special if value in tried]
        numbers = [float(value) for value in tried if value not in special]
        if not numbers:
            return special
        ends = [parameter.encode(parameter.nearest(number))[-1] for number in (min(numbers), max(numbers))]
        indicators = [0.0] * len(parameter.special)
        shares = np.linspace(ends[0], ends[1], SLICE_POINTS).tolist()
        return list(dict.fromkeys([*special, *(parameter.decode([*indicators, share]) for share in shares)]))

    def _points(self, configs: Sequence[Config]) -> Points:
        return Points.without_prior(np.stack([self.space.encode(config) for config in configs]))


def fit_surrogate(run: RunReview) -> Surrogate | None:
    """Fit the model to a run's windows that count as evidence; return None for too few windows, or a single config.

    Args:
        run: The run.
    """
    counted = _counted(run)
    space = space_of(run, _configs_of(counted))
    samples = _thinned([sample for sample in counted if space.contains(sample.config)])
    configs = _configs_of(samples)
    if len(samples) < MIN_WINDOWS or len(configs) < 2 or not space.dimension:
        return None
    # Imported here because scipy takes half a second to import.
    from ringtune.tuner.gp.process import fitted_process  # noqa: PLC0415

    x = np.stack([space.encode(sample.config) for sample in samples])
    y = np.array([sample.log_time for sample in samples], dtype=float)
    variance = np.array([window_variance(sample) for sample in samples])
    observed = Observations(Points.without_prior(x), y, variance)
    return Surrogate(space, fitted_process(observed), configs, len(samples))


def _configs_of(samples: Sequence[TriedSample]) -> list[Config]:
    return list(dict.fromkeys(sample.config for sample in samples))


def _counted(run: RunReview) -> list[TriedSample]:
    """Return the windows that count as evidence and whose config has the same parameters as the last one."""
    counted = [sample for sample in run.tried if sample.is_evidence]
    names = set(counted[-1].config) if counted else set()
    return [sample for sample in counted if set(sample.config) == names]


def _thinned(samples: list[TriedSample]) -> list[TriedSample]:
    """Return the first windows of each config, as many as the limit on all windows allows."""
    if len(samples) <= MAX_WINDOWS:
        return samples
    each = len(samples)
    while each > 1 and len(_first_of_each(samples, each)) > MAX_WINDOWS:
        each //= 2
    thinned = _first_of_each(samples, each)
    return [thinned[int(index)] for index in np.linspace(0, len(thinned) - 1, min(len(thinned), MAX_WINDOWS))]


def _first_of_each(samples: Sequence[TriedSample], each: int) -> list[TriedSample]:
    seen: dict[Config, int] = {}
    first = []
    for sample in samples:
        seen[sample.config] = seen.get(sample.config, 0) + 1
        if seen[sample.config] <= each:
            first.append(sample)
    return first
