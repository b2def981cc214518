# SPDX-License-Identifier: Apache-2.0
"""The tuner's facts as metrics of rank 0."""

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ringtune.tuner import Phase, VoidReason
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.statistics.paired_test import CI_LEVEL

from .families import Families
from .tuner_facts import RunSoFar, TunerFacts, TunerState

DECISIONS = ("adopted", "kept", "unfinished")


class TunerCollector(Collector):
    """Shows a tuner's facts; a fact that is not known yet has no series."""

    def __init__(self, families: Families, facts: TunerFacts) -> None:
        """Show `facts`."""
        self._families = families
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        state = self._facts.state()
        yield from self._counts(state)
        yield from self._decision(state)
        yield from self._progress(state.run)
        yield from self._speeds(state.run)

    def _counts(self, state: TunerState) -> Iterator[Metric]:
        families = self._families
        windows = [({"phase": phase.value}, float(state.windows[phase.value])) for phase in Phase]
        yield families.counters("ringtune_tuner_windows_total", "Windows measured, by phase.", windows)
        void = [({"reason": reason.value}, float(state.void_windows[reason.value])) for reason in VoidReason]
        text = "Windows among them that gave no sample, by reason."
        yield families.counters("ringtune_tuner_void_windows_total", text, void)
        suggestions = [({"designer": designer}, float(count)) for designer, count in state.suggestions.items()]
        yield families.counters("ringtune_tuner_suggestions_total", "Configs that designers suggested.", suggestions)
        text = "What designers took to find them, beside training."
        yield families.counter("ringtune_tuner_design_seconds_total", text, state.design_s)
        decisions = [({"decision": decision}, float(state.decisions[decision])) for decision in DECISIONS]
        yield families.counters("ringtune_tuner_runs_total", "Tuning runs that are over, by decision.", decisions)
        yield families.counter("ringtune_tuner_warnings_total", "What the tuner warned of.", state.warnings)
        text = "What the runs that are over have cost against what was in force; a run that gained counts 0."
        yield families.counter("ringtune_tuner_exploration_seconds_total", text, state.exploration_s)
        text = "What the run that goes on has cost so far; below zero when what it tried was faster, 0 where none does."
        yield families.gauge("ringtune_tuner_run_exploration_seconds", text, state.run.cost_s)
        text = "Of the time since tuning began, what exploration may cost; after the first minute."
        yield families.gauge("ringtune_tuner_exploration_limit_ratio", text, POLICY.exploration_share)
        text = "When the first tuning run began."
        yield families.gauge("ringtune_tuner_start_timestamp_seconds", text, state.began_unix_s)

    def _decision(self, state: TunerState) -> Iterator[Metric]:
        families = self._families
        bounds = state.speedup or (None, None, None)
        ends = (f"{end} end of its {100 * CI_LEVEL:g} % interval" for end in ("lower", "upper"))
        words = ("estimate, a gain only where the config was adopted", *ends)
        names = ("speedup", "speedup_low", "speedup_high")
        for name, which, bound in zip(names, words, bounds, strict=True):
            text = f"By what fraction the best config was faster in the newest adoption test: {which}."
            yield families.gauge(f"ringtune_tuner_{name}_ratio", text, bound)
        result = state.result
        text = "Whether the newest run that is over adopted a config."
        yield families.gauge("ringtune_tuner_adopted", text, None if result is None else result.adopted)
        text = "Steps after which the newest adopted config has won back what its run cost."
        yield families.gauge("ringtune_tuner_payback_steps", text, None if result is None else result.payback_steps)
        verdicts = [] if result is None else [({"verdict": result.verdict}, 1.0)]
        text = "What the newest run that is over decided, in words; always 1."
        yield families.gauges("ringtune_tuner_verdict_info", text, verdicts)

    def _progress(self, run: RunSoFar) -> Iterator[Metric]:
        families = self._families
        phases = [({"phase": phase.value}, float(phase is run.phase)) for phase in Phase]
        yield families.gauges("ringtune_tuner_phase", "1 for the phase that the tuner is in, else 0.", phases)
        text = "Samples of the phase so far; pairs in the adoption test."
        yield families.gauge("ringtune_tuner_phase_samples", text, run.item)
        text = "How many the phase takes at most; none where that is not known."
        yield families.gauge("ringtune_tuner_phase_samples_expected", text, run.items)
        text = "Estimate of what is left of the run."
        yield families.gauge("ringtune_tuner_remaining_seconds", text, run.seconds_left)

    def _speeds(self, run: RunSoFar) -> Iterator[Metric]:
        families = self._families
        text = "Median step time of the newest valid window."
        yield families.gauge("ringtune_tuner_step_seconds", text, run.step_s)
        text = "Bytes of gradients per second of step time: {}."
        name = "ringtune_tuner_{}score_bytes_per_second"
        yield families.gauge(name.format(""), text.format("the newest valid window"), run.score_bytes_per_s)
        words = "the baseline of the newest run, median of its windows"
        yield families.gauge(name.format("baseline_"), text.format(words), run.baseline_score_bytes_per_s)
        words = "the trial of the newest run with the highest median; noise included, so no promise"
        yield families.gauge(name.format("best_"), text.format(words), run.best_score_bytes_per_s)
