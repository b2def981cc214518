# SPDX-License-Identifier: Apache-2.0
"""Wording of the review: figures and sentences for people, shared by the terminal and the page."""

import math
import time

from ringtune.system.counts import counted
from ringtune.tuner.space.readable import readable_cost

from .analysis import Analysis, TrialReview
from .summary import Review, RunReview
from .surrogate import SpeedUpInterval

HOW = (
    "Model: the tuner's Gaussian process, fitted to all windows of baseline, search and test. Effect: speed-up of a "
    "parameter's best tried value over its worst, with the other parameters as chosen; 90 % intervals."
)

LEVELLED = (
    "Step times are those of the machine as it was at the newest baseline window: each is taken relative to the "
    "baseline windows beside it."
)

SHORT_ID = 8
"""Number of characters shown of a long run id."""
MAX_UNIX_TIME_S = 1e11
"""Upper bound of a plausible start time; a later one comes from a damaged log."""


def percent(fraction: float) -> str:
    """Return a signed fraction in percent, such as "+2.5 %"."""
    rounded = round(100 * fraction, 1)
    return f"{rounded:+.1f} %" if rounded else f"{100 * fraction:+.1g} %" if fraction else "0.0 %"


def interval(change: SpeedUpInterval) -> str:
    """Return a change with its interval, such as "+2.5 % (-0.1 % to +5.2 %)"."""
    return f"{percent(change.fraction)} ({percent(change.low)} to {percent(change.high)})"


def short_interval(change: SpeedUpInterval) -> str:
    """Return a change's interval alone, such as "-1..+5 %"."""
    return f"{round(100 * change.low):+d}..{round(100 * change.high):+d} %"


def level(run: RunReview) -> str:
    """Return the level of a run's interval, such as "90 %"."""
    return f"{100 * run.ci_level:g} %"


def rate(steps_per_s: float) -> str:
    """Return steps per second with three significant digits, such as "85.2 steps/s"."""
    return f"{steps_per_s:,.0f} steps/s" if steps_per_s >= 100 else f"{steps_per_s:.3g} steps/s"


def rates(run: RunReview) -> list[str]:
    """Return the speed before tuning, and after an adoption the new speed; nothing if unknown."""
    before, after = run.steps_per_s
    if before is None:
        return []
    measured = "in the adoption test" if run.pair_step_ms else "in the baseline's windows"
    if after is None:
        return [f"Speed: {rate(before)} under the baseline, {measured}"]
    return [f"Speed: {rate(before)} under the baseline, {rate(after)} under the adopted config, {measured}"]


def run_name(run: RunReview) -> str:
    """Return a run's name for people: its start time and the first characters of its id."""
    short = run.run_id if len(run.run_id) <= SHORT_ID + 4 else run.run_id[:SHORT_ID]
    if run.unix_time_s is None or not 0 < run.unix_time_s < MAX_UNIX_TIME_S:
        return short
    return f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(run.unix_time_s))}, {short}"


def without_runs(review: Review) -> str:
    """Return a sentence on a file without a run."""
    if review.is_no_log:
        return f"{review.path}: this is no tuning log; give the file that AUTOTUNE_LOG named"
    return f"{review.path}: no record of a tuning run"


def left_out(review: Review) -> list[str]:
    """Return a sentence with the number of runs that are not shown because they measured nothing."""
    count = len(review.runs) - len(review.telling_runs)
    return [f"Left out: {counted(count, 'run')} of this log without a measurement"] if count else []


def speed(run: RunReview, log_time: float | None) -> str:
    """Return a median as a step time, or as a score if the log has no step times."""
    if log_time is None:
        return "-"
    if run.has_step_times:
        return f"{math.exp(log_time):.2f} ms"
    return f"{math.exp(-log_time) / 1e6:,.1f} MB/s"


def title(run: RunReview) -> str:
    """Return the title of a run: its id, model and layout."""
    model = f", model {run.model_name}" if run.model_name else ""
    hosts = len(run.ranks_per_host)
    layout = f", {counted(sum(run.ranks_per_host), 'rank')} on {counted(hosts, 'host')}" if hosts else ""
    return f"Run {run_name(run)}{model}{layout}"


def cost(run: RunReview) -> list[str]:
    """Return sentences on the cost of the run and its payback."""
    sentences = []
    if run.seconds:
        sentences.append(f"Measured {counted(run.steps, 'step')} in {run.seconds:.0f} s")
    if run.cost_s is not None:
        payback = f"; it pays back after {counted(run.payback_steps, 'step')}" if run.payback_steps else ""
        sentences.append(f"Tuning cost {readable_cost(run.cost_s)}{payback}")
    return sentences


def convergence(run: RunReview, analysis: Analysis) -> str:
    """Return a sentence with the successive best trials, in the order of measurement."""
    if not analysis.improvements:
        return "Convergence: not known; no window counts"
    found = [f"{name_of(trial)} {speed(run, trial.log_time)}" for _, trial in analysis.improvements]
    shown = found if len(found) <= 6 else [*found[:2], "...", *found[-3:]]
    last = analysis.improvements[-1][0]
    return f"Convergence: {' > '.join(shown)}; the best came with window {last} of baseline and search"


def noise(run: RunReview, analysis: Analysis) -> str:
    """Return a sentence on the noise and on the model's best config; only an adopted config has a stated gain."""
    if analysis.noise is None:
        return "Noise: not known; too few windows count"
    window, between = (f"{100 * value:.1f} %" for value in (analysis.noise.window, analysis.noise.between))
    text = f"Noise: windows of one config differ by {window} (one standard deviation), {between} of it between windows"
    return text if analysis.gap is None else f"{text}; the model {_expected_best(run, analysis, analysis.gap)}"


def _expected_best(run: RunReview, analysis: Analysis, gap: SpeedUpInterval) -> str:
    """Return in words what the model expects of its best config."""
    if analysis.best == analysis.reference:
        return "expects no config to be faster than the baseline"
    if gap.low <= 0:
        return "cannot distinguish the best config from the baseline"
    if not run.adopted:
        return "expects a config to be faster than the baseline, but no paired test showed it"
    best = next(trial for trial in analysis.trials if trial.config == analysis.best)
    if best.config == run.chosen:
        return "expects no config to be faster than the adopted one"
    measured = "one window" if best.change is None else interval(best.change)
    return f"expects {name_of(best)} to be the fastest: {measured}, not tested"


def drift(analysis: Analysis) -> str:
    """Return a sentence on the drift of the baseline's speed."""
    if analysis.drift is None:
        return "Drift: not known; the baseline was measured too rarely"
    moved = "" if analysis.drift.is_certain else ", which may be chance"
    windows, seconds = analysis.drift.windows, analysis.drift.seconds
    change = interval(analysis.drift.change)
    text = f"Drift: the baseline's speed changed by {change} in {seconds:.0f} s, {counted(windows, 'window')}{moved}"
    return f"{text}.{about_drift(analysis)}" if analysis.drift_removed else text


def about_drift(analysis: Analysis) -> str:
    """Return a sentence, after a space, on the drift that was removed from step times; empty if none was."""
    return f" {LEVELLED}" if analysis.drift_removed else ""


def expected(run: RunReview, trial: TrialReview) -> str:
    """Return what the designer expected before a trial, in the unit of its median; "-" if it expected nothing."""
    score, size = trial.expected_score, run.bytes_per_step
    if score is None or score <= 0:
        return "-"
    if not run.has_step_times:
        return f"{score / 1e6:,.1f} MB/s"
    return "-" if size is None else f"{size / score * 1e3:.2f} ms"


def name_of(trial: TrialReview) -> str:
    """Return a trial's name: its number, or its line in a foreign log."""
    return f"line {trial.line}" if trial.line else f"trial {trial.trial_id}"


def windows(trial: TrialReview) -> str:
    """Return the number of a trial's valid windows, and of its void ones by reason, such as "3, void: 2 pause"."""
    void = ", ".join(f"{count} {reason}" for reason, count in trial.void.items())
    return f"{trial.windows}, void: {void}" if void else str(trial.windows)
