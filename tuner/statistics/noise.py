# SPDX-License-Identifier: Apache-2.0
"""The noise model: by how much windows of one config differ, from everything a run has measured.

| symbol | meaning |
|---|---|
| v | variance that one step adds to ln(typical step time), mean over all valid windows |
| w | prior standard deviation of windows of one config beyond the scatter of their steps (`Policy.window_std`) |
| nu | weight of that prior, degrees of freedom (`Policy.noise_weight`) |
| e_i | v / steps_i + w^2, the variance that window i should have |
| r | repeated windows: valid ones beside the first of each config |
| phi | true variance of windows over e, posterior mean (nu + S) / (nu + r), never below 1 |

S is the sum of (y - mean of the config)^2 / e over repeated windows, y = ln(typical step time): the conjugate update of
a scaled inverse chi-squared prior (Gelman et al. 2013, "Bayesian Data Analysis", section 2.6). A drift of the machine
is in phi, too, so that a search on an unsteady machine asks more of its test.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ringtune.tuner.policy_numbers import POLICY, Policy
from ringtune.tuner.sample import Sample, Trial


@dataclass(frozen=True)
class WindowNoise:
    """Variance of a window's ln(typical step time), its config's mean known.

    Attributes:
        step_variance: v.
        between_variance: w squared.
        inflation: phi.
        weight: Degrees of freedom behind phi at the start of a test: nu.
    """

    step_variance: float
    between_variance: float
    inflation: float = 1.0
    weight: float = POLICY.noise_weight

    @classmethod
    def of(cls, trials: Sequence[Trial], policy: Policy = POLICY) -> "WindowNoise":
        """Return the noise of a run so far.

        Args:
            trials: All of it; at least one sample is valid.
            policy: The numbers.
        """
        step_variance = fmean(sample.step_variance for trial in trials for sample in trial.samples if sample.valid)
        prior = cls(step_variance, policy.window_std**2, weight=policy.noise_weight)
        squares, repeats = 0.0, 0
        for trial in trials:
            samples = [sample for sample in trial.samples if sample.valid]
            if len(samples) > 1:
                squares += prior.squares_of(samples)
                repeats += len(samples) - 1
        inflation = max((policy.noise_weight + squares) / (policy.noise_weight + repeats), 1.0)
        return cls(step_variance, policy.window_std**2, inflation, policy.noise_weight)

    def squares_of(self, samples: Sequence[Sample]) -> float:
        """Return the sum of squares of windows of one config about their mean, each over its variance."""
        precisions = [1.0 / self.window_variance(sample.steps) for sample in samples]
        y = [math.log(sample.typical_ms) for sample in samples]
        mean = sum(p * each for p, each in zip(precisions, y, strict=True)) / sum(precisions)
        return sum(p * (each - mean) ** 2 for p, each in zip(precisions, y, strict=True))

    def window_variance(self, steps: int) -> float:
        """Return the variance of a window of so many steps."""
        return self.inflation * (self.step_variance / max(steps, 1) + self.between_variance)

    def pair_variance(self, steps: int) -> float:
        """Return the variance of ln(baseline / challenger) of a pair of windows of so many steps each."""
        return 2.0 * self.window_variance(steps)
