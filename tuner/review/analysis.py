# SPDX-License-Identifier: Apache-2.0
"""What a run teaches beyond its decision: how noisy it was, whether the machine drifted, which knob mattered."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median

from ringtune.tuner.sample import Phase
from ringtune.tuner.space.config import Config
from ringtune.tuner.statistics.paired_test import CI_LEVEL
from ringtune.tuner.statistics.student_t import student_t_quantile

from .sensitivity import Sensitivity, sensitivities
from .summary import RunReview, TriedSample
from .surrogate import Change, Surrogate, fit_surrogate, window_variance

MIN_DRIFT_WINDOWS = 4
"""Of the baseline, so that a slope has an error."""


@dataclass(frozen=True)
class TrialReview:
    """One config and what came of it.

    Attributes:
        trial_id: Its number.
        config: Its values.
        windows: Windows that are evidence.
        void: How many windows were voided, by reason.
        log_time: Median of ln(step time), or of ln(seconds per byte); None without a window that counts.
        expected_score: What the designer expected before, bytes per second, or None.
        change: Speed-up over the reference, by the model over all windows; None without a model.
        line: The line of a foreign log, else 0.
    """

    trial_id: int
    config: Config
    windows: int
    void: Mapping[str, int]
    log_time: float | None
    expected_score: float | None
    change: Change | None
    line: int = 0


@dataclass(frozen=True)
class Noise:
    """How much windows of one config differ, as fractions (standard deviations).

    Attributes:
        window: In all.
        between: Beyond what the scatter of their steps explains: longer windows do not help against it.
    """

    window: float
    between: float


@dataclass(frozen=True)
class Drift:
    """How the baseline's speed changed from the first to the last of its windows.

    Attributes:
        change: Of the speed; below zero the machine became slower.
        seconds: Between those two windows.
        windows: Of the baseline.
    """

    change: Change
    seconds: float
    windows: int

    @property
    def is_certain(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.change.low > 0 or self.change.high < 0


@dataclass(frozen=True)
class Analysis:
    """What was inferred from a run.

    Attributes:
        reference: What changes are measured against: the baseline; where it is not known, the chosen config.
        best: The tried config with the shortest expected steps, or None.
        gap: Speed-up of the best config over the baseline, or None where either is not known.
        trials: The configs in the order they were tried.
        improvements: Trials that were the best so far when they were measured: (windows so far, the trial).
        noise: How noisy windows are, or None.
        drift: How the baseline moved, or None where it has too few windows.
        sensitivities: Of the parameters that varied, the largest effect first.
        surrogate: The model behind it all, or None where there are too few windows.
    """

    reference: Config | None
    best: Config | None
    gap: Change | None
    trials: tuple[TrialReview, ...]
    improvements: tuple[tuple[int, TrialReview], ...]
    noise: Noise | None
    drift: Drift | None
    sensitivities: tuple[Sensitivity, ...]
    surrogate: Surrogate | None


def analyse(run: RunReview) -> Analysis:
    """Fit the model to a run and draw the conclusions; takes a second for a run of a hundred windows."""
    surrogate = fit_surrogate(run)
    reference = run.baseline or run.chosen
    best = None if surrogate is None else surrogate.best
    trials = _trials(run, surrogate, reference)
    return Analysis(
        reference=reference,
        best=best,
        gap=_gap(run, surrogate),
        trials=trials,
        improvements=_improvements(run, trials),
        noise=_noise(run, surrogate),
        drift=_drift(run.windows_of(run.baseline)),
        sensitivities=_sensitivities(run, surrogate),
        surrogate=surrogate,
    )


def _gap(run: RunReview, surrogate: Surrogate | None) -> Change | None:
    if surrogate is None or run.baseline is None or run.baseline not in surrogate.configs:
        return None
    return surrogate.changes(run.baseline, [surrogate.best])[0]


def _sensitivities(run: RunReview, surrogate: Surrogate | None) -> tuple[Sensitivity, ...]:
    """Return the effects about the chosen config, or about the best where none was chosen."""
    if surrogate is None:
        return ()
    is_known = run.chosen is not None and run.chosen in surrogate.configs
    return sensitivities(surrogate, run.chosen if is_known and run.chosen is not None else surrogate.best)


def _trials(run: RunReview, surrogate: Surrogate | None, reference: Config | None) -> tuple[TrialReview, ...]:
    groups: dict[Config, list[TriedSample]] = {}
    for sample in run.tried:
        groups.setdefault(sample.config, []).append(sample)
    changes: dict[Config, Change] = {}
    if surrogate is not None and reference is not None and surrogate.space.contains(reference):
        changes = dict(zip(surrogate.configs, surrogate.changes(reference, surrogate.configs), strict=True))
    return tuple(_trial(config, group, changes.get(config)) for config, group in groups.items())


def _trial(config: Config, group: list[TriedSample], change: Change | None) -> TrialReview:
    times = [sample.log_time for sample in group if sample.log_time is not None and sample.is_evidence]
    return TrialReview(
        trial_id=group[0].trial_id,
        config=config,
        windows=len(times),
        void=Counter(sample.reason for sample in group if sample.reason is not None),
        log_time=median(times) if times else None,
        expected_score=next((s.expected_score for s in group if s.expected_score is not None), None),
        change=change,
        line=group[0].line,
    )


def _improvements(run: RunReview, trials: tuple[TrialReview, ...]) -> tuple[tuple[int, TrialReview], ...]:
    """Return the trials whose median beat all before, with the windows of baseline and search until then."""
    by_config = {trial.config: trial for trial in trials}
    found: list[tuple[int, TrialReview]] = []
    best, count = math.inf, 0
    for sample in run.tried:
        if sample.log_time is None or sample.phase not in {Phase.BASELINE, Phase.SEARCH}:
            continue
        count += 1
        trial = by_config[sample.config]
        if trial.log_time is not None and trial.log_time < best:
            best = trial.log_time
            found.append((count, trial))
    return tuple(found)


def _noise(run: RunReview, surrogate: Surrogate | None) -> Noise | None:
    if surrogate is None:
        return None
    scatter = fmean(window_variance(sample) for sample in run.tried if sample.is_evidence)
    return Noise(math.sqrt(scatter + surrogate.noise**2), surrogate.noise)


def _drift(windows: list[TriedSample]) -> Drift | None:
    """Return the slope of ln(step time) over time as a change of speed, by least squares.

    Times are counted in shares of the whole span, so that no time of a damaged log is too large to be squared.
    """
    if len(windows) < MIN_DRIFT_WINDOWS:
        return None
    begin_s = min(sample.t_s for sample in windows)
    seconds = max(sample.t_s for sample in windows) - begin_s
    if not 0 < seconds < math.inf:
        return None
    t = [(sample.t_s - begin_s) / seconds for sample in windows]
    slope, error = _slope(t, [sample.log_time or 0.0 for sample in windows])
    margin = student_t_quantile(len(windows) - 2, 0.5 + CI_LEVEL / 2) * error
    low, middle, high = (_expm1(shift - slope) for shift in (-margin, 0.0, margin))
    return Drift(Change(middle, low, high), seconds, len(windows))


def _slope(t: list[float], y: list[float]) -> tuple[float, float]:
    """Return the slope of a line through more than two points, and its standard error."""
    t_mean, y_mean = fmean(t), fmean(y)
    spread = sum((x - t_mean) ** 2 for x in t)
    slope = sum((x - t_mean) * (value - y_mean) for x, value in zip(t, y, strict=True)) / spread
    residual = sum((value - y_mean - slope * (x - t_mean)) ** 2 for x, value in zip(t, y, strict=True))
    return slope, math.sqrt(residual / (len(t) - 2) / spread)


def _expm1(x: float) -> float:
    """Return exp(x) - 1 of what may be too large for a float."""
    return math.expm1(min(x, 700.0))
