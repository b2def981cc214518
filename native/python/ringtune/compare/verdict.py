# SPDX-License-Identifier: Apache-2.0
"""The verdict: steps per second of both arms, and their ratio with the interval that the tuner's paired tests have."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from ringtune.tuner.statistics.paired_test import CI_LEVEL, Pair, speedup_interval

from .launching import ComparisonError, Run


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
    """

    ddp_steps_per_s: float
    ringtune_steps_per_s: float
    ratio: float
    low: float
    high: float
    level: float = CI_LEVEL

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
        rates = geometric_mean(ddp), geometric_mean(ringtune)
        return cls(*rates, 1 + interval.speedup, 1 + interval.low, 1 + interval.high)

    @property
    def winner(self) -> str:
        """`ringtune` or `ddp`, where the interval is on one side of 1; else `none`."""
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
            return "DDP is faster here."
        return "No difference is shown: the interval holds 1. More --pairs or longer --seconds narrow it."
