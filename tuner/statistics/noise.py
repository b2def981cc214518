# SPDX-License-Identifier: Apache-2.0
"""The noise model: variance between windows of one config, estimated from all samples of a run.

| symbol | meaning |
|---|---|
| v | variance of ln(typical step time) due to one step, mean over all valid windows |
| w | prior standard deviation of windows of one config beyond the scatter of their steps (`Policy.window_std`) |
| nu | weight of that prior, degrees of freedom (`Policy.noise_weight`) |
| e_i | v / steps_i + w^2, the expected variance of window i |
| r | number of repeated windows: valid windows other than the first of each config |
| phi | inflation: actual variance divided by e, posterior mean (nu + S) / (nu + r), never below 1 |

S is the sum of (y - mean of the config)^2 / e over repeated windows, with y = ln(typical step time). The estimate of
phi is the conjugate update of a scaled inverse chi-squared prior (Gelman et al. 2013, "Bayesian Data Analysis",
section 2.6). Drift of the machine increases phi, too, so that the adoption test on an unsteady machine is stricter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ringtune.tuner.policy_numbers import POLICY, Policy
from ringtune.tuner.sample import Sample, Trial


@dataclass(frozen=True)
class WindowNoise:
    """Noise of a window: variance of its ln(typical step time) about the mean of its config.

    Attributes:
        step_variance: v, the variance due to one step.
        between_variance: w^2, the prior variance between windows.
        inflation: phi, the actual variance divided by the expected one.
        weight: nu, the degrees of freedom of the noise prior at the start of a test.
    """

    step_variance: float
    between_variance: float
    inflation: float = 1.0
    weight: float = POLICY.noise_weight

    @classmethod
    def of(cls, trials: Sequence[Trial], policy: Policy = POLICY) -> "WindowNoise":
        """Return the noise estimated from a run so far.

        Args:
            trials: All trials of the run, with at least one valid sample.
            policy: The policy's numbers.
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
        """Return the sum of squared deviations of one config's windows from their mean, each over its variance."""
        mean = self.mean_of(samples)[0]
        return sum(
            1.0 / self.window_variance(sample.steps) * (math.log(sample.typical_ms) - mean) ** 2 for sample in samples
        )

    def mean_of(self, samples: Sequence[Sample]) -> tuple[float, float]:
        """Return the weighted mean of ln(typical step time) over one config's windows, and its variance."""
        precisions = [1.0 / self.window_variance(sample.steps) for sample in samples]
        weighted = sum(p * math.log(sample.typical_ms) for p, sample in zip(precisions, samples, strict=True))
        return weighted / sum(precisions), 1.0 / sum(precisions)

    def window_variance(self, steps: int) -> float:
        """Return the variance of a window of `steps` steps."""
        return self.inflation * (self.step_variance / max(steps, 1) + self.between_variance)

    def pair_variance(self, steps: int) -> float:
        """Return the variance of ln(baseline / challenger) for a pair of windows of `steps` steps each."""
        return 2.0 * self.window_variance(steps)
