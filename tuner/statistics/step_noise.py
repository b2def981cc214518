# SPDX-License-Identifier: Apache-2.0
"""How much a window tells: by the scatter of its own steps, and by that of all other windows.

Machines are not noisy evenly: on many, some windows scatter by several times of what others of the same config do, as
when another job begins beside them. A few steps tell little of how much they scatter, though, so that a window's
variance is drawn to the mean of all (that is the posterior mean under an inverse gamma prior; Gelman et al. 2013,
"Bayesian Data Analysis", section 2.6).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ringtune.tuner.sample import Sample, Trial

MAD_EFFICIENCY = 0.37
"""Of n normal numbers a MAD tells the standard deviation as well as so many n do by their mean square."""
OTHERS_WEIGHT = 2.0
"""What all other windows say of a window's scatter counts as so many degrees of freedom.

With 8 to 1 the mean of pairs, each weighed by what its windows tell, is the surer the less it is; of those whose steps
do scatter evenly 2 makes it 2 % less sure, and 1 makes it 5 %.
"""


@dataclass(frozen=True)
class Scatter:
    """How much steps scatter in the windows so far.

    Attributes:
        step_variance: What one step would add to the variance of ln(typical step time), mean of the windows.
    """

    step_variance: float

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> "Scatter":
        """Return that of all valid samples, of which there is at least one."""
        return cls(fmean(sample.step_variance for trial in trials for sample in trial.samples if sample.valid))

    def log_variance(self, sample: Sample, steps: int | None = None) -> float:
        """Return the variance of ln(typical step time) that a valid sample's scatter explains.

        Args:
            sample: What the scatter is known from, besides all others.
            steps: Of a window that scatters likewise; None: the sample's own.
        """
        own_weight = MAD_EFFICIENCY * sample.steps
        mixed = OTHERS_WEIGHT * self.step_variance + own_weight * sample.step_variance
        return mixed / (OTHERS_WEIGHT + own_weight) / (sample.steps if steps is None else steps)
