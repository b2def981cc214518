# SPDX-License-Identifier: Apache-2.0
"""Progress of a run whose log just ends, as after a kill: the summary that the run itself could no longer write."""

from collections.abc import Sequence
from statistics import median

from ringtune.tuner.policy.early_end import SoFar, best_text, needed_text
from ringtune.tuner.policy.settings import RunSettings
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.sample import Phase, Sample, StepTimes, Trial, VoidReason
from ringtune.tuner.space.config import Config
from ringtune.tuner.statistics.paired_test import Interval

from .analysis import Analysis
from .summary import RINGTUNE, UNFINISHED, RunReview, TriedSample


def so_far(run: RunReview, analysis: Analysis) -> list[str]:
    """Return the best config so far and the estimated need of a verdict; nothing if the run has written it itself."""
    if run.source != RINGTUNE or run.verdict != UNFINISHED or run.baseline is None:
        return []
    best = analysis.best or run.baseline
    sample_steps = _usual_steps(run, Phase.SEARCH) or _usual_steps(run, Phase.BASELINE) or POLICY.least_window_steps
    standing = SoFar(
        trials=_trials(run),
        baseline=run.baseline,
        phase=Phase(run.tried[-1].phase) if run.tried else Phase.WARMUP,
        best=best,
        interval=_interval(analysis, best),
        pairs=0,
        most_pairs=RunSettings().adoption_pairs,
        steps=run.steps,
        measured_steps=run.steps,
        seconds=run.seconds,
        sample_steps=sample_steps,
        pair_steps=max(sample_steps // 2, POLICY.least_window_steps),
    )
    return [f"{best_text(standing)} {needed_text(standing)}"]


def _interval(analysis: Analysis, best: Config) -> Interval | None:
    """Return the interval of the best config's speed-up; None for the baseline, or if one window measured it."""
    change = next((trial.change for trial in analysis.trials if trial.config == best), None)
    if change is None or best == analysis.reference:
        return None
    return Interval(change.fraction, change.low, change.high)


def _usual_steps(run: RunReview, phase: Phase) -> int:
    steps = [sample.steps for sample in run.tried if sample.phase == phase and sample.valid]
    return round(median(steps)) if steps else 0


def _trials(run: RunReview) -> Sequence[Trial]:
    """Return the windows that count as evidence, grouped by config, the baseline's first."""
    configs = dict.fromkeys([run.baseline, *(sample.config for sample in run.tried)])
    windows = {config: run.windows_of(config) for config in configs if config is not None}
    return [
        Trial(number, config, tuple(_sample(window) for window in of))
        for number, (config, of) in enumerate(windows.items())
        if of
    ]


def _sample(window: TriedSample) -> Sample:
    """Return the sample of a window that counts as evidence; without step times a placeholder of 1 ms stands in."""
    step_ms = window.step_ms or 1.0
    return Sample(
        trial_id=window.trial_id,
        config=window.config,
        phase=Phase(window.phase),
        epoch=0,
        score_bytes_per_s=window.score_bytes_per_s or 0.0,
        step_times=StepTimes(step_ms, window.mad_ms or 0.0, step_ms),
        steps=window.steps,
        reason=None if window.reason is None else VoidReason(window.reason),
    )
