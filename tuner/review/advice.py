# SPDX-License-Identifier: Apache-2.0
"""Advice: sentences on the next step that name the setting to change. Each rule checks one condition.

No advice contradicts the decision, which rests on paired tests. A chosen value is never called useless, nor is another
value advised. A run that should be resumed, or should not be repeated, gets no advice for another search.
"""

import math
from collections import Counter
from collections.abc import Iterator
from statistics import NormalDist, median

from ringtune.system.counts import counted
from ringtune.tuner.policy.settings import RunSettings
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.sample import Phase, VoidReason
from ringtune.tuner.space.config import Value
from ringtune.tuner.space.parameter_types import BooleanParameter
from ringtune.tuner.statistics.paired_test import ERROR

from .analysis import Analysis
from .sensitivity import DOES_NOT_MATTER, Sensitivity
from .settings_text import knob_variable, setting_value
from .summary import BAGUA, HOROVOD, RINGTUNE, RunReview

LEAST_GAP = 0.005
"""Smallest speed-up that counts as a gap between two configs, a fraction."""
MANY_VOID = 0.2
"""Share of void windows above which they waste a large part of the budget."""
LEAST_DRIFT = 0.02
LATE = 0.8
"""Share of the search after which a new best config suggests that better ones remain."""
HIDDEN_STDS = NormalDist().inv_cdf(1.0 - ERROR) * math.sqrt(2 / RunSettings().adoption_pairs)
"""Smallest gain that all pairs of an adoption test show, in standard deviations of a window."""
MOST_HIDDEN = 0.05
"""Gain that noise may hide from a run that is called flat, a fraction; tuning is sought for less on a quiet machine."""
MIN_TRIALS = 8
"""Minimum number of search samples for the rule on late improvements."""
CAUSES = {
    VoidReason.PAUSE: "the job pauses inside windows: evaluate and save less often while it tunes",
    VoidReason.TENSOR_SET_CHANGED: "the set of gradients changes from step to step: fix unused layers, or group them",
    VoidReason.MIXED_EPOCHS: "ranks were between two configs: a rank lags behind",
    VoidReason.NO_GRADIENTS: "steps without gradients were counted: call step() only after backward()",
    VoidReason.INVALID_SCORE: "step times were zero or not finite: the clock or the log is damaged",
    VoidReason.MEMORY_LIMIT: "configs needed more memory than the limit: raise memory_limit_bytes if there is more",
    VoidReason.LAUNCH_FAILED: "launches failed: look for the command's error message in the run's output",
}


def advice(run: RunReview, analysis: Analysis) -> list[str]:
    """Return sentences of advice, the most useful first; none if there is nothing to improve."""
    rules = (_ending, _noise, _luck, _never_helped, _void, _drift, _late, _flat, _foreign)
    return [sentence for rule in rules for sentence in rule(run, analysis)]


def _ending(run: RunReview, analysis: Analysis) -> Iterator[str]:
    del analysis
    if run.source == RINGTUNE and not run.is_complete:
        yield "the run did not finish: start the job again with the same AUTOTUNE_LOG or AUTOTUNE_CACHE, and it goes on"


def _noise(run: RunReview, analysis: Analysis) -> Iterator[str]:
    """Advise longer windows if the noise exceeds the gap, unless most of the noise lies between windows."""
    noise, gap = analysis.noise, _gain(analysis)
    if run.source != RINGTUNE or run.adopted or noise is None or not LEAST_GAP < gap < noise.window:
        return
    figures = f"noise is {_percent(noise.window)}, more than the difference between the configs"
    if noise.window**2 < 2 * noise.between**2:
        yield (
            f"{figures}, and most of the noise lies between windows, so that longer ones help little: "
            "free the machine of other work, and tune again"
        )
        return
    steps = [sample.steps for sample in run.tried if sample.phase == Phase.SEARCH and sample.steps]
    current = median(steps) if steps else 0
    wanted = min(math.ceil(current * (noise.window / gap) ** 2), 10 * POLICY.most_window_steps)
    yield f"raise AUTOTUNE_STEPS_PER_SAMPLE from {current:.0f} to {wanted}: {figures}"


def _luck(run: RunReview, analysis: Analysis) -> Iterator[str]:
    """Warn of the winner's curse: a foreign tuner chose its highest single score, and the model expects less."""
    surrogate = analysis.surrogate
    if run.source == RINGTUNE or surrogate is None or run.chosen not in surrogate.configs or run.chosen is None:
        return
    scores = [s.score_bytes_per_s for s in run.tried if s.config == run.chosen and s.score_bytes_per_s is not None]
    if not scores:
        return
    expected = math.exp(-surrogate.log_time(run.chosen))
    if max(scores) > (1 + LEAST_DRIFT) * expected:
        yield (
            f"the chosen row scored {max(scores) / 1e6:,.0f} MB/s, all rows together expect {expected / 1e6:,.0f} MB/s "
            "there: part of it was luck (winner's curse)"
        )


def _never_helped(run: RunReview, analysis: Analysis) -> Iterator[str]:
    """Advise fixing switches that were part of no improvement, and parameters without effect."""
    is_to_go_on = run.source == RINGTUNE and not run.is_complete  # resuming needs the same space
    if analysis.surrogate is None or is_to_go_on or _is_flat(run, analysis):
        return
    kinds = {parameter.name: parameter for parameter in analysis.surrogate.varied}
    for item in analysis.sensitivities:
        if isinstance(kinds[item.name], BooleanParameter):
            yield from _useless_switch(run, analysis, item)
        elif item.finding == DOES_NOT_MATTER:
            yield f"{item.name} does not matter here ({_percent(item.effect.high)} at most); {_fix(run, item)}"


def _useless_switch(run: RunReview, analysis: Analysis, item: Sensitivity) -> Iterator[str]:
    useless = item.worst
    tried = [trial for trial in analysis.trials if trial.config.get(item.name) == useless and trial.windows]
    has_helped = any(trial.config.get(item.name) == useless for _, trial in analysis.improvements[1:])
    if len(tried) < 2 or has_helped or _is_in_force(run, item.name, useless):
        return
    state = "on" if useless is True else "off"
    yield f"{item.name} {state} never helped in {len(tried)} trials; {_fix(run, item)} to save {len(tried)} samples"


def _is_in_force(run: RunReview, name: str, value: Value) -> bool:
    """Return whether a value belongs to the baseline or the chosen config."""
    return any(config is not None and config.get(name) == value for config in (run.baseline, run.chosen))


def _fix(run: RunReview, item: Sensitivity) -> str:
    """Return advice to fix a parameter at its chosen value, or at its best value if no config was chosen."""
    value = setting_value(item.name, item.best if run.chosen is None else run.chosen.get(item.name, item.best))
    return f"fix it at {value}" if run.target != RINGTUNE else f"fix it ({knob_variable(item.name)}={value})"


def _void(run: RunReview, analysis: Analysis) -> Iterator[str]:
    del analysis
    counts = Counter(sample.reason for sample in run.tried if sample.reason is not None)
    if run.source == RINGTUNE and counts.total() > MANY_VOID * len(run.tried):
        reason, count = counts.most_common(1)[0]
        share = f"{count} of {counted(len(run.tried), 'window')} {'was' if count == 1 else 'were'} void"
        yield f"{share} ({reason}): {CAUSES[VoidReason(reason)]}"


def _drift(run: RunReview, analysis: Analysis) -> Iterator[str]:
    drift = analysis.drift
    if drift is not None and drift.is_certain and abs(drift.change.fraction) > LEAST_DRIFT:
        direction = "faster" if drift.change.fraction > 0 else "slower"
        believe = "believe the pairs of the adoption test, and " if run.pairs else ""
        yield (
            f"the machine drifted: it became {_percent(abs(drift.change.fraction))} {direction} under one config in "
            f"{drift.seconds:.0f} s; {believe}look for other work on the machine"
        )


def _late(run: RunReview, analysis: Analysis) -> Iterator[str]:
    searched = sum(sample.phase == Phase.SEARCH and sample.valid for sample in run.tried)
    baselines = sum(sample.phase == Phase.BASELINE and sample.valid for sample in run.tried)
    is_late = bool(analysis.improvements) and analysis.improvements[-1][0] > LATE * searched + baselines
    if run.source == RINGTUNE and run.adopted and searched >= MIN_TRIALS and is_late:
        yield f"the best config was found late in the search: raise {_limits(run, searched)} in the next run"


def _limits(run: RunReview, searched: int) -> str:
    """Return the variables that limited a search, with their values."""
    names = ("max_samples", "max_steps", "max_seconds")
    limits = {name: run.budget[name] for name in names if run.budget.get(name) is not None} or {"max_samples": searched}
    return " and ".join(f"AUTOTUNE_{name.upper()} (it was {value})" for name, value in limits.items())


def _flat(run: RunReview, analysis: Analysis) -> Iterator[str]:
    if not _is_flat(run, analysis) or analysis.noise is None:
        return
    hidden = math.expm1(HIDDEN_STDS * analysis.noise.window)
    if hidden < MOST_HIDDEN:
        yield "no tried config is expected to beat the default: leave AUTOTUNE out of this job"
    else:
        yield (
            "no tried config is expected to beat the default, but the noise of "
            f"{_percent(analysis.noise.window)} hides gains below {_percent(hidden)}: free the machine of other work "
            "before another search"
        )


def _foreign(run: RunReview, analysis: Analysis) -> Iterator[str]:
    del analysis
    if run.source == HOROVOD:
        yield (
            "measure the default too: Horovod's search box does not contain it, and its log never shows whether tuning "
            "helped; time some hundred steps without HOROVOD_AUTOTUNE and with the settings above, in turn"
        )
        if not run.is_complete:
            yield "let the search end, or lower HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES: only a closing row is a choice"
    if run.source == BAGUA:
        yield "is_hierarchical_reduce reaches no worker in Bagua: differences between its values are noise"


def _is_flat(run: RunReview, analysis: Analysis) -> bool:
    """Return whether a finished run kept the default, and the model expects no gain from any tried config."""
    kept = run.is_complete and not run.adopted and run.chosen in {None, run.baseline}
    return run.source == RINGTUNE and kept and analysis.surrogate is not None and _gain(analysis) <= LEAST_GAP


def _gain(analysis: Analysis) -> float:
    """Return the expected speed-up of the best config over the baseline; 0 if unknown."""
    return 0.0 if analysis.gap is None else analysis.gap.fraction


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"
