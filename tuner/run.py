# SPDX-License-Identifier: Apache-2.0
"""The tuning run: warmup, baseline, search, adoption.

It ends with a config that was shown to beat the baseline, or with the baseline and the words "keeping default". It
never raises: tuning never fails training.
"""

import math
import time

from .adoption import Decision, decide, keep
from .designers.base import Designer
from .guard import DesignerFailed, GuardedDesigner
from .journal import Clock, Journal
from .log import TuningLog
from .measuring import Meter
from .phases import Inconclusive, RunState, measure_baseline, search, warm_up
from .reporting import Observer, Reporter, Result
from .sample import Phase
from .settings import RunSettings
from .space import SpaceError
from .targets import Target, TargetClosed
from .trials import TrialBook


class TuningRun:
    """One job's passage through warmup, baseline, search and adoption."""

    def __init__(
        self,
        target: Target,
        designer: Designer,
        settings: RunSettings,
        log: TuningLog,
        observer: Observer,
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        """Prepare a run; nothing is measured before `run`.

        Args:
            target: What to tune.
            designer: What suggests configs; called in a thread of its own.
            settings: Budget, seed and identity.
            log: Takes the records; the caller closes it.
            observer: Shows the run to people.
            clock: Seconds, monotonic.
        """
        self._target = target
        self._baseline = target.baseline()
        self._designer = designer
        self._settings = settings
        self._reporter = Reporter(log, observer)
        self._clock = clock

    def run(self) -> Result:
        """Tune the target to the end, in the calling thread, and leave the winner in force."""
        settings = self._settings
        journal = Journal(self._reporter, settings, self._clock)
        state = RunState(
            settings=settings,
            baseline=self._baseline,
            incumbent=self._baseline,
            meter=Meter(self._target, journal.sample),
            book=TrialBook(self._baseline, settings.prior_trials[: settings.max_samples]),
            journal=journal,
        )
        try:
            decision = self._decide(state)
            state.meter.switch(decision.config)
        except TargetClosed:
            return self._finish(state, _unfinished(state))
        except Exception as error:  # noqa: BLE001 - the last line of defence: training must not notice
            decision = self._fall_back(state, error)
        return self._finish(state, decision)

    def _decide(self, state: RunState) -> Decision:
        try:
            space = self._target.space()
            state.journal.begin(space, state.baseline)
            space.validate(state.baseline)
            if not space.free:
                return keep(state.baseline, self._settings.nothing_to_tune)
            guard = GuardedDesigner(self._designer, space, self._settings.deadline_s)
            state.meter.switch(state.baseline)
            warm_up(state)
            measure_baseline(state)
            search(state, guard)
            return decide(state, guard)
        except (DesignerFailed, Inconclusive, SpaceError) as error:
            return keep(state.baseline, str(error))

    def _fall_back(self, state: RunState, error: Exception) -> Decision:
        """Return to the baseline, as far as the target still lets us."""
        try:
            state.meter.switch(state.baseline)
        except Exception as second:  # noqa: BLE001 - nothing is left to try
            self._reporter.warned(f"the baseline could not be brought back: {second!r}; the job keeps its config")
        return keep(state.baseline, f"the tuner failed: {error!r}")

    def _finish(self, state: RunState, decision: Decision) -> Result:
        if decision.is_complete:
            state.journal.enter(Phase.WATCH, config=decision.config)
        cost_s = state.meter.cost_s(state.baseline, state.baseline_ms)
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
        )
        state.journal.result(result, list(decision.pairs))
        return result


def _unfinished(state: RunState) -> Decision:
    verdict = f"unfinished: the job ended in the {state.journal.phase.value} phase of tuning"
    return Decision(state.meter.in_force or state.baseline, adopted=False, verdict=verdict, is_complete=False)


def _payback_steps(decision: Decision, cost_s: float, baseline_ms: float) -> int | None:
    """Return after how many steps the cost is won back; None when nothing was adopted."""
    if not decision.adopted or decision.interval is None:
        return None
    gain_s = baseline_ms * 1e-3 * (1.0 - 1.0 / (1.0 + decision.interval.speedup))
    return max(math.ceil(cost_s / gain_s), 0)
