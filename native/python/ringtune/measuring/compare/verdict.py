# SPDX-License-Identifier: Apache-2.0
"""The verdict: steps per second of both arms, and their ratio with the interval that the tuner's paired tests have."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from ringtune.tuner.statistics.paired_test import CI_LEVEL, Pair, speedup_interval

from .launching import ComparisonError, Run

STEADY_SPREAD = 1.5  # highest rate of an arm over its lowest: a quiet machine stays below 1.1, a shared one below this


@dataclass(frozen=True)
class Verdict:
    """Verdict of pairs of runs.

    Attributes:
        ddp_steps_per_s: Geometric mean over the runs, so that the quotient of the rates is the ratio.
        ringtune_steps_per_s: The same of the other arm.
        ratio: Geometric mean over pairs of ringtune's steps per second over DDP's.
        low: Lower end of the ratio's two-sided interval.
        high: Upper end.
        level: Confidence level of the interval.
        spread: Highest rate of an arm over its lowest, of the arm where that is more.
        ratio_spread: Highest ratio of a pair over the lowest.
        baseline: Name of the other arm for people.
    """

    ddp_steps_per_s: float
    ringtune_steps_per_s: float
    ratio: float
    low: float
    high: float
    level: float = CI_LEVEL
    spread: float = 1.0
    ratio_spread: float = 1.0
    baseline: str = "DDP"

    @classmethod
    def of(cls, pairs: Sequence[tuple[Run, Run]]) -> "Verdict":
        """Return the verdict of pairs, each a run of DDP and one of ringtune.

        Raises:
            ComparisonError: If a rate is no number above zero.
        """
        ddp = [run.steps_per_s for run, _ in pairs]
        ringtune = [run.steps_per_s for _, run in pairs]
        for rate in (*ddp, *ringtune):
            if not math.isfinite(rate) or rate <= 0:
                raise ComparisonError(f"{rate} steps per second is no rate to compare; run the comparison again")
        interval = speedup_interval([Pair(1e3 / a, 1e3 / b) for a, b in zip(ddp, ringtune, strict=True)])
        ratios = [b / a for a, b in zip(ddp, ringtune, strict=True)]
        return cls(
            geometric_mean(ddp),
            geometric_mean(ringtune),
            1 + interval.speedup,
            1 + interval.low,
            1 + interval.high,
            spread=max(max(ddp) / min(ddp), max(ringtune) / min(ringtune)),
            ratio_spread=max(ratios) / min(ratios),
            baseline=pairs[0][0].name,
        )

    @property
    def is_steady(self) -> bool:
        """True if the runs are alike enough for the interval to be believed.

        The interval takes pairs for draws of one distribution. A machine that does other work at times makes them
        differ by more than the arms do, and a few such pairs lie on one side by chance.
        """
        effect = max(self.ratio, 1 / self.ratio)
        return self.spread <= STEADY_SPREAD or self.ratio_spread <= effect

    @property
    def winner(self) -> str:
        """`ringtune` or `ddp`, where the interval is on one side of 1 and the runs were steady; else `none`."""
        if not self.is_steady:
            return "none"
        return "ringtune" if self.low > 1 else "ddp" if self.high < 1 else "none"

    @property
    def ratio_text(self) -> str:
        """The ratio with its interval, for people."""
        return f"{self.ratio:.3f} ({self.level:.0%} interval {self.low:.3f} to {self.high:.3f})"

    @property
    def sentence(self) -> str:
        """The verdict as a sentence."""
        if self.winner == "ringtune":
            return "ringtune's engine is faster here."
        if self.winner == "ddp":
            return f"{self.baseline} is faster here."
        if not self.is_steady:
            return (
                f"No difference is shown, and none could be: runs of one arm differ by {self.spread:.1f} times, and "
                f"the ratios of the pairs by {self.ratio_spread:.1f} times. Something else uses this machine: compare "
                "again when it is quiet, with more --pairs or longer --seconds."
            )
        return "No difference is shown: the interval holds 1. More --pairs or longer --seconds narrow it."
