# SPDX-License-Identifier: Apache-2.0
"""Level of a machine's speed over a run, from the baseline's windows: steps and slow drift, if they are significant.

Other windows enter model and review relative to the baseline windows beside them. A machine that shows no drift has one
level, and nothing is changed: a correction by noisy windows would only add their noise.

| symbol | meaning |
|---|---|
| x, y | position of a baseline window among all windows of the run, and its ln(step time) |
| n | number of baseline windows of a segment |
| RSS0, RSS1 | residual sum of squares about one mean, and about the best alternative |
| v | least variance of a window that the noise model allows |

The alternatives are two means, one for the windows from i to j and one for all others, or a line. The best one is kept
if t^2 = (RSS0 - RSS1) / max(RSS1 / (n - 2), v) exceeds Student's quantile for n - 2 degrees of freedom at the error
probability `ERROR`, divided by the number of alternatives (Bonferroni). The parts before i, from i to j and after j are
segments in turn (circular binary segmentation: Olshen et al. 2004, Biostatistics 5); so are the residuals of a line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from .student_t import student_t_quantile

Array = NDArray[np.float64]

ERROR = 0.001
"""Error probability of a step or a line in windows without drift, so small that a steady machine is left alone."""
LEAST_SIDE = 2
"""Least number of baseline windows on either side of a step: a single slow window is an outlier."""
NO_SLOPE = 1e-9
"""Share of the sum of squares that a line must explain: rounding errors are no slope."""
MOST_WINDOWS = 200
"""Maximum number of baseline windows for segments with two ends; beyond it one step at a time is found."""


@dataclass(frozen=True)
class Shift:
    """Machine's ln(step time) at a window, relative to the newest baseline window.

    Attributes:
        level: The shift; above zero if the machine was slower.
        variance: Its variance: the moment of a step between two baseline windows is not known.
    """

    level: float = 0.0
    variance: float = 0.0


@dataclass(frozen=True)
class _Segment:
    """Part of a run with one level, or one line: from one baseline window's position to another's."""

    first: int
    last: int
    level: float
    slope: float = 0.0

    def at(self, x: float) -> float:
        """Return the level at a position; beyond the ends that of the nearer end."""
        return self.level + self.slope * (min(max(x, self.first), self.last) - self.first)

    def tilted(self, line: "_Segment") -> "_Segment":
        """Return the segment plus a line that spans it."""
        return replace(self, level=self.level + line.at(self.first), slope=self.slope + line.slope)


def machine_shifts(baseline: Sequence[tuple[int, float]], count: int, least_variance: float) -> list[Shift] | None:
    """Return the shift of each window of a run; None if no drift is significant.

    Args:
        baseline: Position and ln(step time) of each baseline window, in the order of measurement.
        count: Number of all windows, at the positions from 0.
        least_variance: v, above zero.
    """
    segments = _segments(baseline, least_variance)
    if len(segments) == 1 and not segments[0].slope:
        return None
    now = segments[-1].at(math.inf)
    return [_shift(segments, x, now) for x in range(count)]


def spread(shifts: Sequence[Shift]) -> float:
    """Return the size of a drift: the difference between the slowest and the fastest level, ln(step time)."""
    levels = [shift.level for shift in shifts]
    return max(levels) - min(levels)


def _segments(windows: Sequence[tuple[int, float]], least_variance: float) -> list[_Segment]:
    """Return the segments of a run, in their order."""
    if not windows:
        return [_Segment(0, 0, 0.0)]
    first, last = windows[0][0], windows[-1][0]
    mean, rss = _mean(windows)
    constant = [_Segment(first, last, mean)]
    count = len(windows)
    if count < 2 * LEAST_SIDE:
        return constant
    parts, parts_rss, alternatives = _parts(np.array([y for _, y in windows]))
    line, line_rss = _line(windows)
    if line_rss > rss * (1.0 - NO_SLOPE):  # residuals of a line
        line_rss = math.inf
    best_rss = min(parts_rss, line_rss)
    limit = student_t_quantile(count - 2, 1.0 - ERROR / (2 * (alternatives + 1)))
    if rss - best_rss <= limit**2 * max(best_rss / (count - 2), least_variance):
        return constant
    if line_rss < parts_rss:
        rest = _segments([(x, y - line.at(x)) for x, y in windows], least_variance)
        return [segment.tilted(line) for segment in rest]
    found: list[_Segment] = []
    for begin, end in pairwise([0, *parts, count]):
        found += _segments(windows[begin:end], least_variance)
    return found


def _parts(y: Array) -> tuple[list[int], float, int]:
    """Return the ends of the part whose mean differs most, as one or two positions within a segment.

    Returns:
        The positions, the residual sum of squares about the two means, and the number of alternatives.
    """
    count = len(y)
    ends = np.arange(count + 1)
    first, last = np.meshgrid(ends if count <= MOST_WINDOWS else ends[:1], ends, indexing="ij")
    sizes = [first, last - first, count - last]
    is_legal = (sizes[1] >= LEAST_SIDE) & (sizes[1] < count)
    for side in (sizes[0], sizes[2]):
        is_legal &= (side == 0) | (side >= LEAST_SIDE)
    is_legal &= (first == 0) | (last < count)  # a part at the end is the rest of one at the beginning
    first, last = first[is_legal], last[is_legal]
    sums = np.concatenate([[0.0], np.cumsum(y - y.mean())])
    inside, size = sums[last] - sums[first], last - first
    between = inside**2 * (1.0 / size + 1.0 / (count - size))  # the parts' deviations from the common mean
    best = int(np.argmax(between))
    rss = max(float(((y - y.mean()) ** 2).sum() - between[best]), 0.0)
    found = [int(position) for position in (first[best], last[best]) if 0 < position < count]
    return found, rss, len(between)


def _mean(windows: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return the mean of ln(step time), and the residual sum of squares about it."""
    mean = fmean(y for _, y in windows)
    return mean, sum((y - mean) ** 2 for _, y in windows)


def _line(windows: Sequence[tuple[int, float]]) -> tuple[_Segment, float]:
    """Return the least-squares line, and the residual sum of squares about it."""
    (mean, _), middle = _mean(windows), fmean(x for x, _ in windows)
    slope = sum((x - middle) * (y - mean) for x, y in windows) / sum((x - middle) ** 2 for x, _ in windows)
    first, last = windows[0][0], windows[-1][0]
    rss = sum((y - mean - slope * (x - middle)) ** 2 for x, y in windows)
    return _Segment(first, last, mean + slope * (first - middle), slope), rss


def _shift(segments: Sequence[_Segment], x: int, now: float) -> Shift:
    """Return the shift at a position; between two segments the step is equally likely at any place."""
    before = next((s for s in reversed(segments) if s.first <= x), segments[0])
    after = next((s for s in segments if s.last >= x), segments[-1])
    if before is after or x <= before.last:
        return Shift(before.at(x) - now)
    share = (x - before.last) / (after.first - before.last)
    step = after.at(x) - before.at(x)
    return Shift(before.at(x) + share * step - now, share * (1.0 - share) * step**2)
