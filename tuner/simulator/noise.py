# SPDX-License-Identifier: Apache-2.0
"""Noise of a job's steps: random scatter, stragglers, pauses, and a machine whose speed drifts over hours."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtune.errors import ConfigError


@dataclass(frozen=True)
class Noise:
    """Noise parameters; the default is a quiet machine, `Noise.none()` a noise-free one.

    Attributes:
        step: Standard deviation of ln(step time) between steps, common to all ranks.
        window: Standard deviation of ln(step time) between windows, which longer windows do not reduce.
        late_chance: Probability that a rank is late, per rank and step.
        late_factor: Mean slowdown of a late rank's computing, above 1. The excess is exponentially distributed.
        pause_chance: Probability of a pause after a step, as for evaluation or a checkpoint.
        pause_s: Duration of a pause, seconds.
        drift: Standard deviation of ln(speed) of the machine over days.
        drift_s: Correlation time of the machine's speed, seconds.
    """

    step: float = 0.02
    window: float = 0.005
    late_chance: float = 0.0
    late_factor: float = 1.5
    pause_chance: float = 0.0
    pause_s: float = 5.0
    drift: float = 0.0
    drift_s: float = 600.0

    def __post_init__(self) -> None:
        """Refuse probabilities and spreads out of range."""
        for name in ("late_chance", "pause_chance"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"{name}={getattr(self, name)!r} is no chance; give one from 0 to 1")
        for name, least in (("step", 0.0), ("window", 0.0), ("late_factor", 1.0), ("pause_s", 0.0), ("drift", 0.0)):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= least):
                raise ConfigError(f"{name}={getattr(self, name)!r} is not possible; give at least {least:g}")
        if not (math.isfinite(self.drift_s) and self.drift_s > 0):
            raise ConfigError(f"drift_s={self.drift_s!r} is not possible; give seconds above 0")

    @classmethod
    def none(cls) -> "Noise":
        """Return zero noise: every step takes exactly the predicted time."""
        return cls(step=0.0, window=0.0)


@dataclass(frozen=True)
class StepDraws:
    """Random draws for the steps of a window, each of shape (steps,).

    Attributes:
        factors: Factor on the step time.
        slowest: Factor on the slowest rank's computing.
        has_pause: Whether a pause follows the step.
    """

    factors: NDArray[np.float64]
    slowest: NDArray[np.float64]
    has_pause: NDArray[np.bool_]


class NoiseStream:
    """Noise stream: draws the noise of successive windows from one seed."""

    def __init__(self, noise: Noise, world_size: int, seed: int) -> None:
        """Seed the stream, and draw the machine's first speed from its long-term distribution."""
        self._noise = noise
        self._world_size = world_size
        self._rng = np.random.default_rng(seed)
        self._drift = self._rng.normal(0.0, noise.drift)
        self._drawn_at_s = 0.0

    def window(self, steps: int, now_s: float) -> StepDraws:
        """Return the noise of a window of `steps` steps that begins at `now_s`, no earlier than the previous one."""
        self._let_drift(now_s)
        level = self._drift + self._rng.normal(0.0, self._noise.window)
        factors = np.exp(level + self._rng.normal(0.0, self._noise.step, steps))
        return StepDraws(factors, self._slowest(steps), self._rng.random(steps) < self._noise.pause_chance)

    def _let_drift(self, now_s: float) -> None:
        """Advance the drift, a mean-reverting (Ornstein-Uhlenbeck) process, exact for any interval."""
        kept = math.exp(-(now_s - self._drawn_at_s) / self._noise.drift_s)
        spread = self._noise.drift * math.sqrt(1.0 - kept**2)
        self._drift = kept * self._drift + self._rng.normal(0.0, spread)
        self._drawn_at_s = now_s

    def _slowest(self, steps: int) -> NDArray[np.float64]:
        """Return the slowest rank's factor per step, drawn from the distribution of the maximum of k exponentials."""
        late = self._rng.binomial(self._world_size, self._noise.late_chance, steps)
        uniform = self._rng.random(steps)
        largest = -np.log1p(-(uniform ** (1.0 / np.maximum(late, 1))))
        return np.where(late > 0, 1.0 + (self._noise.late_factor - 1.0) * largest, 1.0)
