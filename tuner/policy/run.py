# SPDX-License-Identifier: Apache-2.0
"""Tuning run: warmup, baseline, search and adoption test; or the shorter check of an adopted config.

A run ends with a config that was shown to beat the baseline, or with the baseline and the verdict "keeping default". It
never raises, so that tuning never fails training. Afterwards the config in force can be watched.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace

from ringtune.tuner.designers.base import Designer
from ringtune.tuner.logs.log import TuningLog
from ringtune.tuner.sample import Phase, Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace, SpaceError
from ringtune.tuner.targets import Target, TargetClosed

from . import search_end
from .adoption import Decision, compare, decide, keep
from .budget import ExplorationAccount
from .designer_watchdog import DesignerFailed, GuardedDesigner
from .early_end import ended_job_text, ended_tuning_text
from .journal import Clock, Journal
from .measuring import Meter, TensorSetChanged
from .reporting import Observer, Reporter, Result
from .search import measure_baseline, measure_repeatedly, search
from .settings import RunSettings
from .state import Inconclusive, RunState
from .trials import TrialBook
from .warmup import warm_up
from .watch import Change, DecisionWatch


class TuningRun:
    """Tuning run, for single use: call `run` or `recheck`, then optionally `watch`.

    Attributes:
        can_be_watched: Whether the run reached a decision that later windows can call into question.
        has_failed: Whether it reached none for another reason than the job's end; a config is in force all the same.
    """

    def __init__(
        self,
        target: Target,
        designer: Designer,
        settings: RunSettings,
        log: TuningLog,
        observer: Observer,
        *,
        clock: Clock = time.monotonic,
        account: ExplorationAccount | None = None,
        is_over: Callable[[], bool] = lambda: False,
        end_reason: Callable[[], str] = lambda: "",
    ) -> None:
        """Prepare a run; nothing is measured before `run`.

        Args:
            target: The system to tune.
            designer: Source of the configs to try; called in a thread of its own.
            settings: Budget, seed and identity.
            log: Log of the records; the caller closes it.
            observer: Display of the run.
            clock: Monotonic clock, seconds.
            account: Exploration cost of earlier searches of the job; None for the first.
            is_over: Whether the job is over, polled while the designer works; at all other times the target raises.
            end_reason: Reason for an end while the job goes on, asked for once the target is closed; empty if the job
                is over.
        """
        self._target = target
        self._baseline = target.baseline() if settings.baseline is None else settings.baseline
        self._designer = designer
        self._settings = settings
        self._reporter = Reporter(log, observer)
        self._clock = clock
        self._account = account
        self._is_over = is_over
        self._end_reason = end_reason
        self._state: RunState | None = None
        self.can_be_watched = False
        self.has_failed = False

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials so far in step times of the machine as it is now, the baseline first."""
        return () if self._state is None else self._state.book.levelled()

    def run(self) -> Result:
        """Run all phases in the calling thread, and leave the chosen config in force."""
        return self._conduct(self._search, self._baseline)

    def recheck(self, adopted: Config) -> Result:
        """Test whether an adopted config that is in force still beats the baseline; if not, go back to the baseline."""

        def test(state: RunState) -> Decision:
            self._begin(state)
            try:
                measure_repeatedly(state, adopted, Phase.WATCH)  # costs nothing: the config is in force
            except Inconclusive as error:
                return Decision(adopted, adopted=False, verdict=f"not checked, keeping what is in force: {error}")
            decision = compare(state, adopted)
            prefix = "still " if decision.adopted else "no longer adopted, "
            return replace(decision, verdict=prefix + decision.verdict)

        return self._conduct(test, adopted)

    def watch(
        self, rest: Callable[[float], object], may_act: Callable[[], bool], pending: Change | None = None
    ) -> Change:
        """Measure the config in force at intervals; return the change that calls the decision into question.

        Args:
            rest: Waits the given number of seconds, or until the job ends.
            may_act: Whether a check or a search is allowed now; until then a change is only remembered.
            pending: An earlier change without a response, to be returned as soon as `may_act` allows; None without one.

        Raises:
            TargetClosed: If the job is over.
        """
        if self._state is None:
            raise AssertionError("nothing to watch before a decision")
        watch = DecisionWatch(self._state.meter, self._state.book, self._state.steps, self._state.baseline)
        try:
            return watch.wait(rest, may_act, pending)
        except TargetClosed:
            if reason := self._end_reason():
                self._state.journal.given_up(reason)
            raise

    def _conduct(self, decide_on: Callable[[RunState], Decision], reference: Config) -> Result:
        """Reach a decision despite any failure, bring it in force and report it."""
        settings = self._settings
        journal = Journal(self._reporter, settings, self._clock)
        self._state = state = RunState(
            settings=settings,
            baseline=self._baseline,
            incumbent=self._baseline,
            reference=reference,
            meter=Meter(self._target, journal.sample, self._clock, settings.policy),
            book=TrialBook(self._baseline, settings.prior_trials[: settings.max_samples], settings.earlier.samples),
            journal=journal,
            account=ExplorationAccount(journal.now_s) if self._account is None else self._account,
            steps=settings.policy.least_window_steps,
        )
        try:
            decision = self._decided(state, decide_on)
            state.meter.switch(decision.config)
        except TargetClosed:
            self.can_be_watched = False
            reason = self._end_reason()
            state.ended = search_end.interrupted(state, reason)
            in_force = state.meter.in_force or state.baseline
            verdict = ended_tuning_text(state, reason) if reason else ended_job_text(state)
            return self._finish(state, Decision(in_force, False, verdict, is_complete=False))
        except Exception as error:  # noqa: BLE001 - the last line of defence: training must not notice
            self.can_be_watched, self.has_failed = False, True
            state.ended = search_end.could_not_go_on(state, f"the tuner failed: {error!r}")
            decision = self._fall_back(state, error)
        return self._finish(state, decision)

    def _decided(self, state: RunState, decide_on: Callable[[RunState], Decision]) -> Decision:
        try:
            decision = decide_on(state)
        except TensorSetChanged as error:
            state.ended = search_end.could_not_go_on(state, str(error))
            decision = keep(state, str(error))
        except (DesignerFailed, Inconclusive, SpaceError) as error:
            self.has_failed = True
            state.ended = search_end.could_not_go_on(state, str(error))
            return keep(state, str(error))
        self.can_be_watched = bool(self._target.space().free)
        return decision

    def _begin(self, state: RunState) -> SearchSpace:
        space = self._target.space()
        state.journal.begin(space, state.baseline)
        state.config_count = space.config_count
        space.validate(state.baseline)
        return space

    def _search(self, state: RunState) -> Decision:
        space = self._begin(state)
        if not space.free:
            state.ended = search_end.could_not_go_on(state, f"there was {self._settings.nothing_to_tune}")
            return keep(state, self._settings.nothing_to_tune)
        guard = GuardedDesigner(self._designer, space, self._settings.deadline_s, self._is_over)
        state.meter.switch(state.baseline)
        warm_up(state)
        measure_baseline(state, guard)
        search(state, guard)
        return decide(state, guard)

    def _fall_back(self, state: RunState, error: Exception) -> Decision:
        """Return to the baseline if the target still allows it."""
        try:
            state.meter.switch(state.baseline)
        except Exception as second:  # noqa: BLE001 - nothing is left to try
            self._reporter.warned(f"the baseline could not be brought back: {second!r}; the job keeps its config")
        return keep(state, f"the tuner failed: {error!r}")

    def _finish(self, state: RunState, decision: Decision) -> Result:
        if decision.is_complete:
            state.journal.enter(Phase.WATCH, config=decision.config)
        cost_s = state.cost_s
        state.account.close_search(cost_s)
        interval = decision.interval
        result = Result(
            config=decision.config,
            baseline=state.baseline,
            adopted=decision.adopted,
            verdict=decision.verdict,
            speedup=interval.speedup if interval else None,
            ci_low=interval.low if interval else None,
            ci_high=interval.high if interval else None,
            cost_s=cost_s,
            payback_steps=_payback_steps(decision, cost_s, state.baseline_ms),
            steps=state.meter.steps,
            seconds=state.journal.elapsed_s,
            is_complete=decision.is_complete,
            ended=state.ended,
        )
        state.journal.result(result, decision.pairs)
        return result


def _payback_steps(decision: Decision, cost_s: float, baseline_ms: float) -> int | None:
    """Return the number of steps after which the gain has repaid the cost; None if nothing was adopted."""
    if not decision.adopted or decision.interval is None:
        return None
    gain_s = baseline_ms * 1e-3 * (1.0 - 1.0 / (1.0 + decision.interval.speedup))
    return max(math.ceil(cost_s / gain_s), 0)
