# SPDX-License-Identifier: Apache-2.0
"""The phases between warmup and the adoption test: the baseline, the search; and what all phases share."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from ringtune.tuner.sample import Phase, Sample, Trial, reason_of
from ringtune.tuner.space.config import Config
from ringtune.tuner.statistics.pair_noise import usual_window_variance
from ringtune.tuner.statistics.paired_test import PairedTest

from .adoption_plan import OVERCONFIDENCE, AdoptionPlan, best_plan
from .belief import Gain
from .budget import ExplorationAccount, reserved_steps
from .designer_watchdog import Advice, GuardedDesigner
from .journal import Journal
from .limits import steps_left_by_limit
from .measuring import MAX_STEPS, MIN_STEPS, SETTLE_STEPS, SHORT_WINDOW_STEPS, Meter, Order, steps_for, steps_within
from .settings import RunSettings
from .stopping import Patience
from .trials import BASELINE_ID, TrialBook

BASELINE_SAMPLES = 3
UNINFORMED_BASELINE_SAMPLES = 2
"""Where steps are counted and the designer does not know what to expect: there one more config does more for the job.
Where an earlier job says it, the search is over soon, and its test wants to know the noise."""
BASELINE_SHARE = 0.15
"""Of a budget of steps, that the first measurement of the baseline takes at most."""
WINDOW_SHARE = 1 / 20
"""Of a budget of steps or seconds, that a window takes at most: longer ones left no room to try anything."""
BASELINE_EVERY = 5
"""The baseline is measured again before every fifth search sample, so that drift does not pass for a gain."""
LEAST_SAMPLES_AFTER = 3
"""But not where the budget has room for fewer samples of the search after it: the test measures the baseline anyway."""
COARSE_ERROR = 0.15
"""Of what is unknown of a config before it is tried, that may be unknown still after a short window."""
CUT_FACTOR = 1.3
"""A config whose steps take this many times the baseline's median is cut after a few of them: they are a sample too."""


class Inconclusive(Exception):  # noqa: N818 - reads as the outcome it is
    """The run cannot go on for want of valid windows; the message says which and why."""


@dataclass
class RunState:
    """What the phases share.

    Attributes:
        settings: Budget and identity.
        baseline: The config the job would run without this search.
        incumbent: The best config known so far, as the designer has it.
        reference: What is in force when the run begins: what the others cost is counted against it.
        meter: Measures the target.
        book: The trials.
        journal: Tells the log and people.
        account: What all searches of the job cost.
        steps: Steps per window.
        expected_gain: By how much the incumbent's steps are expected to be shorter than the baseline's, as ln.
        adopted_before: What an earlier run of the same question has adopted after a test; None where there is none.
        unknown_std: What a suggestion that is not informed may be off by, as ln(step time); None for one that is.
        gain: Of the incumbent, by the designer; None from one that does not say how sure it is.
        spent: The limit that ended the search, `samples`, `steps` or `seconds`; None where nothing worthwhile was left.
        test: The adoption test, once it has begun.
        challenger: What is tested.
        config_count: How many legal configs there are.
    """

    settings: RunSettings
    baseline: Config
    incumbent: Config
    reference: Config
    meter: Meter
    book: TrialBook
    journal: Journal
    account: ExplorationAccount
    steps: int = MIN_STEPS
    expected_gain: float = 0.0
    adopted_before: Config | None = None
    unknown_std: float | None = None
    gain: Gain | None = None
    spent: str | None = None
    test: PairedTest | None = None
    challenger: Config | None = None
    config_count: float = math.inf

    @property
    def steps_left(self) -> float:
        """Steps that the budget still allows to measure or skip; infinite without one.

        What the job does between windows is taken off at the pace of the newest windows, and seconds count as the steps
        that they last for. Before the first window no pace is known, and seconds set no limit.
        """
        return min(self._left.values())

    @property
    def nearest_limit(self) -> str:
        """Which of the limits is reached first, `steps` or `seconds`."""
        return min(self._left, key=self._left.__getitem__)

    @property
    def _left(self) -> dict[str, float]:
        """The steps left by each limit."""
        return steps_left_by_limit(self.settings, self.meter.pace, self.journal.elapsed_s, self.baseline_ms * 1e-3)

    @property
    def most_window_steps(self) -> int:
        """Steps of a window at most: where it chooses its own lengths, a budget has room for several of them."""
        if not self.settings.can_choose_windows or self.settings.steps_per_sample is not None:
            return MAX_STEPS
        total = self.total_steps
        return MAX_STEPS if math.isinf(total) else max(int(WINDOW_SHARE * total), MIN_STEPS)

    @property
    def total_steps(self) -> float:
        """Steps of the whole budget, those done included; infinite without one."""
        return self.meter.steps + self.steps_left

    @property
    def is_over_exploration_budget(self) -> bool:
        """Whether the configs tried have cost so much time that one more might make it too much."""
        return self.account.is_overdrawn(self.journal.now_s, self.cost_s, self.risk_s)

    @property
    def cost_s(self) -> float:
        """Seconds lost so far to configs that were tried; 0 before the reference was measured."""
        return self.meter.cost_s(self.reference, self._reference_ms) if self._reference_ms else 0.0

    @property
    def risk_s(self) -> float:
        """Seconds that the next trial may cost: as much as the dearest so far, or as one that is not quite cut."""
        uncut_s = self.window_steps * (CUT_FACTOR * self.baseline_ms - self._reference_ms) * 1e-3
        return max(self.meter.dearest_s(self.reference, self._reference_ms), uncut_s) if self._reference_ms else 0.0

    @property
    def _reference_ms(self) -> float:
        """Median of the reference's median step times, milliseconds; 0 before it was measured."""
        return self._median_ms(self.reference)

    @property
    def window_steps(self) -> int:
        """What a window of the baseline takes of the budget."""
        return self.steps + SETTLE_STEPS

    @property
    def baseline_steps(self) -> int:
        """Steps of a window of the baseline: shorter ones where the budget has no room for several of the usual."""
        if not self.settings.can_choose_windows:
            return self.steps
        total = self.total_steps
        fitting = 0 if math.isinf(total) else int(BASELINE_SHARE * total / BASELINE_SAMPLES)
        return min(max(fitting, SHORT_WINDOW_STEPS), self.steps)

    @property
    def search_steps(self) -> int:
        """Steps of a window of the search.

        Where steps are counted and nothing but this run's samples tells what to expect, any config may be much better
        or much worse: few steps tell most of that, and what they save is another config's.
        """
        if not self.settings.can_choose_windows or self.unknown_std is None:
            return self.steps
        times = [x for trial in self.book.trials() for x in self.book.times_of(trial.config)]
        wanted = steps_within(COARSE_ERROR * self.unknown_std, times)
        return min(max(wanted, SHORT_WINDOW_STEPS), self.steps)

    @property
    def pair_window_steps(self) -> int:
        """Steps of each of a pair's windows, at most: short ones, so that drift between them cancels."""
        if self.settings.counts_steps and self.settings.fixed_windows:
            return self.steps
        return self.settings.steps_per_sample or max(self.steps // 2, MIN_STEPS)

    @property
    def shortest_pair_window_steps(self) -> int:
        """Steps of each of a pair's windows, at least."""
        usual = self.pair_window_steps
        return min(SHORT_WINDOW_STEPS, usual) if self.settings.can_choose_windows else usual

    @property
    def reserved_steps(self) -> float:
        """How much of a budget the adoption test finds left at least; nothing is kept where steps are not counted."""
        total = self.total_steps if self.settings.counts_steps else math.inf
        if math.isinf(total):
            return 0.0
        return reserved_steps(total, self.shortest_pair_window_steps, self.settings.adoption_pairs)

    def adoption_plan(self, gain: float, spent_before: float = 0.0) -> AdoptionPlan:
        """Return how the adoption test should use the steps left.

        Args:
            gain: Expected of the challenger, as ln(baseline / challenger).
            spent_before: Steps that something else takes first.
        """
        left = self.steps_left - spent_before
        lengths = range(self.shortest_pair_window_steps, self.pair_window_steps + 1)
        return best_plan(self.book.trials(), gain, lengths, left, self.settings.adoption_pairs)

    @property
    def baseline_ms(self) -> float:
        """Median of the baseline's median step times, milliseconds; 0 before it was measured."""
        return self._median_ms(self.baseline)

    @property
    def interim(self) -> Config:
        """What is in force while nothing is tried: the incumbent, but none whose own windows were slower.

        A model may believe in a config against its samples, and what is lost meanwhile is on no account.
        """
        times = self.book.times_of(self.incumbent)
        is_faster = bool(times) and median(x.median for x in times) < self.baseline_ms
        return self.incumbent if is_faster else self.baseline

    def _median_ms(self, config: Config) -> float:
        times = self.book.times_of(config)
        return median(x.median for x in times) if times else 0.0


def measure_baseline(state: RunState, guard: GuardedDesigner) -> None:
    """Measure the baseline a few times; choose the steps per window from what is seen.

    Raises:
        DesignerFailed: If the designer cannot be used.
        Inconclusive: If no window was valid.
        TargetClosed: If the job is over.
    """
    settings = state.settings
    samples = _baseline_samples(state)
    if settings.max_samples is not None:
        remeasured = max(settings.max_samples - 1, 0) // BASELINE_EVERY
        state.journal.expect(samples + settings.max_samples + remeasured + 2 * settings.adoption_pairs)
    state.journal.enter(Phase.BASELINE, samples, config=state.baseline)
    for index in range(samples):
        is_unaffordable = settings.counts_steps and 0 < index >= _baseline_samples(state)
        if is_unaffordable or (index == UNINFORMED_BASELINE_SAMPLES and not _is_third_window_due(state, guard)):
            break
        sample = _sample_baseline(state)
        state.steps = _usual_steps(state)
        state.journal.advance()
    if not state.book.times_of(state.baseline):
        raise Inconclusive(f"no window of the baseline was valid: {reason_of(sample)}")
    state.adopted_before = guard.adopted_before(state.book.trials())


def _usual_steps(state: RunState) -> int:
    """Return the steps of a window by what was seen of the baseline; those of a launch where steps are counted."""
    settings = state.settings
    if settings.counts_steps and settings.fixed_windows:
        valid = state.book.valid_samples(state.baseline)
        return valid[-1].steps if valid else state.steps
    return min(steps_for(state.book.times_of(state.baseline), settings.steps_per_sample), state.most_window_steps)


def measure_in_force(state: RunState, config: Config) -> None:
    """Measure the config that is in force already, which costs nothing; choose the steps per window by it.

    Raises:
        Inconclusive: If no window was valid.
        TargetClosed: If the job is over.
    """
    trial_id = state.book.id_of(config)
    for _ in range(BASELINE_SAMPLES):
        sample = state.meter.measure(Order(config, trial_id, Phase.WATCH, state.steps))
        state.book.add(sample)
        state.steps = steps_for(state.book.times_of(config), state.settings.steps_per_sample)
    if not state.book.times_of(config):
        raise Inconclusive(f"no window of what is in force was valid: {reason_of(sample)}")


def search(state: RunState, guard: GuardedDesigner) -> None:
    """Try what the designer suggests until the budget is spent, but for what the adoption test needs.

    It ends earlier where the designer expects nothing any more that would be worth a test.

    Raises:
        DesignerFailed: If the designer cannot be used any more.
        TargetClosed: If the job is over.
    """
    settings = state.settings
    numbers = _sample_numbers(settings)
    done = numbers.start
    patience = Patience()
    state.journal.enter(Phase.SEARCH, settings.max_samples, config=state.baseline, done=done)
    for index in numbers:
        is_baseline_due = index > done and index % BASELINE_EVERY == 0 and _has_room_after_baseline(state)
        if not _has_room(state):
            state.spent = state.nearest_limit
            break
        if is_baseline_due:
            _sample_baseline(state)
        _wait_for_exploration_budget(state)
        if state.is_over_exploration_budget or not _has_room(state):
            state.spent = state.nearest_limit
            break
        advice = _think(state, guard)
        if patience.is_over(advice, len(state.book.measured())) or not _is_worth_a_sample(state, advice):
            break
        _try(state, advice, guard.name)
        state.journal.advance()
    else:
        state.spent = "samples"


def _sample_numbers(settings: RunSettings) -> range:
    """Return the numbers of the samples to take, after those of an unfinished run."""
    limit = sys.maxsize if settings.max_samples is None else settings.max_samples
    return range(min(_searched_samples(settings.prior_trials), limit), limit)


def _searched_samples(trials: Sequence[Trial]) -> int:
    """Return how many samples of a search are known: some configs have several, and what a check measured is one."""
    return sum(max(sum(sample.phase is Phase.SEARCH for sample in trial.samples), 1) for trial in trials)


def _baseline_samples(state: RunState) -> int:
    """Return how often the baseline is measured before the search; once at least."""
    affordable = BASELINE_SHARE * state.total_steps / state.baseline_steps
    return int(min(max(affordable, 1), BASELINE_SAMPLES))


def _is_third_window_due(state: RunState, guard: GuardedDesigner) -> bool:
    """Tell whether another window of the baseline does more for the job than another config."""
    if not state.settings.counts_steps or not state.book.times_of(state.baseline):
        return True
    return guard.advise(state.book.trials(), state.book.measured()).suggestion.is_informed


def _has_room(state: RunState) -> bool:
    """Tell whether the budget has room for another sample."""
    return state.search_steps <= _search_room(state)


def _has_room_after_baseline(state: RunState) -> bool:
    """Tell whether the budget has room for a few samples beside another one of the baseline."""
    baseline_steps = state.baseline_steps + SETTLE_STEPS
    return LEAST_SAMPLES_AFTER * (state.search_steps + SETTLE_STEPS) <= _search_room(state) - baseline_steps


def _search_room(state: RunState) -> float:
    """Return how many steps the next sample may measure so that the adoption test finds its own left."""
    return state.steps_left - SETTLE_STEPS - state.reserved_steps


def _is_worth_a_sample(state: RunState, advice: Advice) -> bool:
    """Tell whether what is suggested should win more than the steps it takes would in the adoption test."""
    if not state.settings.counts_steps or advice.belief is None:
        return True
    belief = advice.belief if advice.suggestion.is_informed else advice.belief.less_sure(OVERCONFIDENCE)
    noise_variance = usual_window_variance(state.book.trials(), state.search_steps)
    kept, later = belief.gains_if_kept(noise_variance), belief.gains_after(noise_variance)
    plan = state.adoption_plan(belief.gain().mean)
    expected_later = fmean(gain.mean for gain in later)
    shorter = state.adoption_plan(expected_later, state.search_steps + SETTLE_STEPS)
    return fmean(map(shorter.value, later)) >= fmean(map(plan.value, kept))


def _think(state: RunState, guard: GuardedDesigner) -> Advice:
    """Let the job train under the best config known while the designer thinks."""
    state.meter.switch(state.interim)
    advice = guard.advise(state.book.trials(), state.book.measured())
    state.incumbent, state.expected_gain = advice.incumbent, advice.expected_gain
    state.gain = None if advice.belief is None else advice.belief.gain()
    outlook = None if advice.suggestion.is_informed else advice.outlook
    state.unknown_std = None if outlook is None else outlook.std
    return advice


def _try(state: RunState, advice: Advice, designer: str) -> None:
    """Measure what a designer suggests."""
    config = advice.suggestion.config
    trial_id = state.book.id_of(config)
    state.journal.suggestion(advice.suggestion, trial_id, designer=designer, ask_ms=advice.ask_ms)
    limit_ms = CUT_FACTOR * state.baseline_ms
    steps = int(min(state.search_steps, max(_search_room(state), SHORT_WINDOW_STEPS)))
    state.book.add(state.meter.measure(Order(config, trial_id, Phase.SEARCH, steps, limit_ms)))
    state.journal.measured()


def _wait_for_exploration_budget(state: RunState) -> None:
    """Let the job train under the best config known while exploration has cost too much.

    Nothing is tried meanwhile, so that waiting may earn but never costs: else a machine that became slower, or steps of
    which some are long, would make it wait for ever. Its windows are those of a watch, in the log alone.
    """
    while state.is_over_exploration_budget and state.steps_left >= state.window_steps + state.reserved_steps:
        trial_id = state.book.id_of(state.interim)
        waited = state.meter.measure(Order(state.interim, trial_id, Phase.WATCH, state.steps))
        state.meter.credit(waited, state.baseline_ms)


def _sample_baseline(state: RunState) -> Sample:
    sample = state.meter.measure(Order(state.baseline, BASELINE_ID, Phase.BASELINE, state.baseline_steps))
    state.book.add(sample)
    state.journal.measured()
    return sample
