# SPDX-License-Identifier: Apache-2.0
"""Analysis of a run beyond its decision: noise, drift of the machine, and sensitivity to each parameter."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median

from ringtune.tuner.sample import Phase
from ringtune.tuner.space.config import Config
from ringtune.tuner.statistics.paired_test import CI_LEVEL
from ringtune.tuner.statistics.student_t import student_t_quantile
from ringtune.tuner.statistics.window_interval import WindowGain, untested_interval

from .levelling import Levelled, levelled
from .sensitivity import Sensitivity, sensitivities
from .summary import RINGTUNE, RunReview, TriedSample
from .surrogate import SpeedUpInterval, Surrogate, fit_surrogate
from .windows import window_variance

MIN_DRIFT_WINDOWS = 4
"""Minimum number of the baseline's windows for a slope with a standard error."""
MAX_EXPONENT = 700.0
"""Largest exponent whose exp() fits into a float, nearly."""


@dataclass(frozen=True)
class TrialReview:
    """One config and its results.

    Attributes:
        trial_id: Number of the trial.
        config: The config.
        windows: Number of windows that count as evidence.
        void: Number of void windows, by reason.
        log_time: Median of ln(step time), or of ln(seconds per byte); None without a window that counts.
        expected_score: Score that the designer expected before the trial, bytes per second, or None.
        change: Speed-up over the reference: by the paired test of a config that was tested, else by the model over all
            windows. None without a model, and for a config of ringtune's search that one window measured.
        line: Line number in a foreign log, else 0.
    """

    trial_id: int
    config: Config
    windows: int
    void: Mapping[str, int]
    log_time: float | None
    expected_score: float | None
    change: SpeedUpInterval | None
    line: int = 0


@dataclass(frozen=True)
class RepeatNoise:
    """Noise between windows of one config: relative standard deviations.

    Attributes:
        window: Total noise of a window.
        between: Noise that the scatter of the steps does not explain, which longer windows do not reduce.
    """

    window: float
    between: float


@dataclass(frozen=True)
class Drift:
    """Drift of the baseline's speed from its first to its last window.

    Attributes:
        change: Change of the speed, below zero if the machine became slower.
        seconds: Time between the two windows.
        windows: Number of the baseline's windows.
    """

    change: SpeedUpInterval
    seconds: float
    windows: int

    @property
    def is_certain(self) -> bool:
        """True if the interval excludes zero."""
        return self.change.low > 0 or self.change.high < 0


@dataclass(frozen=True)
class Analysis:
    """Inference from a run.

    Attributes:
        reference: Config that changes are measured against: the baseline, or the chosen config if it is unknown.
        best: Tried config with the shortest expected step, or None.
        gap: Speed-up of the best config over the baseline; None if either is unknown.
        trials: Trials in the order of measurement.
        improvements: Trials that were the best so far when measured: (number of windows so far, trial).
        noise: Noise of the windows, or None.
        drift: Drift of the baseline; None if it has too few windows.
        sensitivities: Effects of the parameters that varied, the largest first.
        surrogate: Model behind the inference; None if there are too few windows.
        levelled: The run with the drift of its machine removed, behind everything but `drift`.
    """

    reference: Config | None
    best: Config | None
    gap: SpeedUpInterval | None
    trials: tuple[TrialReview, ...]
    improvements: tuple[tuple[int, TrialReview], ...]
    noise: RepeatNoise | None
    drift: Drift | None
    sensitivities: tuple[Sensitivity, ...]
    surrogate: Surrogate | None
    levelled: Levelled

    @property
    def drift_removed(self) -> bool:
        """True if the machine's drift was significant, and was removed from the windows."""
        return self.levelled.spread > 0.0


def analyse(run: RunReview) -> Analysis:
    """Fit the model to a run and analyse it; a run of a hundred windows takes about a second."""
    level = levelled(run)
    surrogate = fit_surrogate(level.run)
    reference = run.baseline or run.chosen
    best = None if surrogate is None else surrogate.best
    trials = _trials(level.run, surrogate, reference)
    return Analysis(
        reference=reference,
        best=best,
        gap=_gap(run, surrogate),
        trials=trials,
        improvements=_improvements(level.run, trials),
        noise=_noise(level.run, surrogate),
        drift=_drift(run.windows_of(run.baseline)),
        sensitivities=_sensitivities(level, surrogate),
        surrogate=surrogate,
        levelled=level,
    )


def _gap(run: RunReview, surrogate: Surrogate | None) -> SpeedUpInterval | None:
    if surrogate is None or run.baseline is None or run.baseline not in surrogate.configs:
        return None
    return surrogate.changes(run.baseline, [surrogate.best])[0]


def _sensitivities(level: Levelled, surrogate: Surrogate | None) -> tuple[Sensitivity, ...]:
    """Return the effects around the chosen config, or around the best one if none was chosen."""
    if surrogate is None:
        return ()
    chosen = level.run.chosen
    centre = chosen if chosen is not None and chosen in surrogate.configs else surrogate.best
    return sensitivities(surrogate, centre, level.spread)


def _trials(run: RunReview, surrogate: Surrogate | None, reference: Config | None) -> tuple[TrialReview, ...]:
    groups: dict[Config, list[TriedSample]] = {}
    for sample in run.tried:
        groups.setdefault(sample.config, []).append(sample)
    changes: dict[Config, SpeedUpInterval] = {}
    if surrogate is not None and reference is not None and surrogate.space.contains(reference):
        gains = zip(surrogate.configs, surrogate.gains(reference, surrogate.configs), strict=True)
        changes = {config: change for config, gain in gains if (change := _change(run, config, gain)) is not None}
    return tuple(_trial(config, group, changes.get(config)) for config, group in groups.items())


def _change(run: RunReview, config: Config, gain: tuple[float, float]) -> SpeedUpInterval | None:
    """Return a config's speed-up over the reference, from the model's mean and standard deviation of its gain.

    Only ringtune's own logs have repeated windows and a baseline; a row of a foreign log is compared as it is.
    """
    mean, std = gain
    if config == run.tested and run.speedup is not None and run.ci_low is not None and run.ci_high is not None:
        return SpeedUpInterval(run.speedup, run.ci_low, run.ci_high)
    if run.source != RINGTUNE or config == run.baseline:
        return SpeedUpInterval.of(mean, std)
    baseline = [sample.log_time for sample in run.windows_of(run.baseline) if sample.log_time is not None]
    interval = untested_interval(WindowGain(mean, std**2, len(run.windows_of(config))), baseline)
    return None if interval is None else SpeedUpInterval(interval.speedup, interval.low, interval.high)


def _trial(config: Config, group: list[TriedSample], change: SpeedUpInterval | None) -> TrialReview:
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
    """Return the trials whose median beat all earlier ones, with the number of baseline and search windows by then."""
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


def _noise(run: RunReview, surrogate: Surrogate | None) -> RepeatNoise | None:
    if surrogate is None:
        return None
    scatter = fmean(window_variance(sample) for sample in run.tried if sample.is_evidence)
    return RepeatNoise(math.sqrt(scatter + surrogate.noise**2), surrogate.noise)


def _drift(windows: list[TriedSample]) -> Drift | None:
    """Return the slope of ln(step time) over time as a change of speed, by least squares.

    Times are scaled to the whole span, so that the square of a damaged log's time cannot overflow.
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
    exponents = (shift - slope for shift in (-margin, 0.0, margin))
    low, middle, high = (math.expm1(min(exponent, MAX_EXPONENT)) for exponent in exponents)
    return Drift(SpeedUpInterval(middle, low, high), seconds, len(windows))


def _slope(t: list[float], y: list[float]) -> tuple[float, float]:
    """Return the slope of a line through more than two points, and its standard error."""
    t_mean, y_mean = fmean(t), fmean(y)
    spread = sum((x - t_mean) ** 2 for x in t)
    slope = sum((x - t_mean) * (value - y_mean) for x, value in zip(t, y, strict=True)) / spread
    residual = sum((value - y_mean - slope * (x - t_mean)) ** 2 for x, value in zip(t, y, strict=True))
    return slope, math.sqrt(residual / (len(t) - 2) / spread)
