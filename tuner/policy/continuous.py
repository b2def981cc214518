# SPDX-License-Identifier: Apache-2.0
"""Tuning for as long as a job runs: a search, then the watch, and where something has changed a check and a new search.

A drift need not be the fault of the config in force, for the default may have drifted as well. So both are compared
first, by the adoption test: what is not shown to be faster any more is given up at once. Where it is faster by as much
as before, the machine as a whole has changed, and nothing is searched. Otherwise a search begins, which takes what is
in force for its baseline, and the earlier search for its prior.

Each check and each search is a run of its own in the log. They become rarer while they change nothing, and together
cost no more of the job's time than a single search may. One that fails has answered nothing: it is tried again, as
rarely as one that changed nothing, until several in a row have failed.

A world that was resized is no change here: an engine lives in one world. The next world's first search begins with
what this one has left in the store of studies.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ringtune.tuner.designers.base import Designer
from ringtune.tuner.logs.log import TuningLog
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.priors.warm_start import MIN_CONFIGS, EarlierStudy
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace
from ringtune.tuner.targets import Target, TargetClosed

from .budget import ExplorationAccount
from .journal import Clock
from .reporting import Observer, Reporter, Result
from .run import TuningRun
from .settings import RunSettings
from .watch import Change, Event

BACK_OFF_S = 600.0
"""After a check or a search, the next may begin so much later; twice as much with each that changed nothing."""
MAX_DOUBLINGS = 8
MOST_FAILURES = 3
"""After so many failed responses in a row the watch ends: there is no reason to hope for the next."""
LATER_SHARE = 2
"""A later search has one part of so many of the first one's limits."""


@dataclass(frozen=True)
class Question:
    """What to search for: where, by whom, with which budget."""

    target: Target
    designer: Designer
    settings: RunSettings


QuestionFactory = Callable[[Sequence[Trial]], Question]
"""Asks anew, for the job as it is now; takes the trials of the job's search before, which may serve as a prior."""


def study_of(space: SearchSpace, trials: Sequence[Trial], seed: int) -> tuple[EarlierStudy, ...]:
    """Return the prior that earlier trials of the job are, or none where too few of their configs are legal."""
    legal = [trial for trial in trials if trial.is_conclusive and space.contains(trial.config)]
    return (EarlierStudy(space, legal, seed),) if len(legal) >= MIN_CONFIGS else ()


class ContinuousTuning:
    """Tunes one job; `run` returns when the job is over, or when there is nothing to watch.

    Attributes:
        is_watching: Whether a decision is in force and nothing is tried; also once `run` has returned.
    """

    def __init__(
        self,
        ask: QuestionFactory,
        log: TuningLog,
        observer: Observer,
        *,
        rest: Callable[[float], object],
        on_decision: Callable[[Result], None],
        is_over: Callable[[], bool] = lambda: False,
        clock: Clock = time.monotonic,
    ) -> None:
        """Prepare; nothing is measured before `run`.

        Args:
            ask: Says what to search for, before each search.
            log: Takes the records; the caller closes it.
            observer: Shows all runs to people.
            rest: Waits so many seconds, less when the job ends.
            on_decision: Takes each decision, in force by then, before the watch over it begins.
            is_over: As of `TuningRun`.
            clock: Seconds, monotonic.
        """
        self._ask = ask
        self._log = log
        self._observer = observer
        self._rest = rest
        self._on_decision = on_decision
        self._is_over = is_over
        self._clock = clock
        self._account = ExplorationAccount(clock())
        self._trials: tuple[Trial, ...] = ()
        self._gains: dict[Config, Result] = {}  # over the default, of what was adopted
        self._next_s = self._account.began_s
        self._fruitless = 0
        self.is_watching = False

    def run(self) -> None:
        """Tune, watch, and tune again, in the calling thread."""
        try:
            run, result = self._search(self._ask(()))
            failures, unanswered = 0, None
            while run.can_be_watched or 0 < failures < MOST_FAILURES:
                self.is_watching = True
                change = run.watch(self._rest, self._may_act, unanswered)
                self.is_watching = False
                Reporter(self._log, self._observer).warned(f"{change}: what was decided is called into question")
                run, decided = self._respond(result, change)
                self._back_off(has_changed=decided.config != result.config)
                result = decided
                failures, unanswered = (failures + 1, change) if run.has_failed else (0, None)
        except TargetClosed:
            return
        finally:
            self.is_watching = True

    def _respond(self, before: Result, change: Change) -> tuple[TuningRun, Result]:
        """Check what is in force, if it is not the default, and search where that may pay."""
        question = self._ask(self._trials)
        fresh: tuple[Trial, ...] = ()
        baseline = question.target.baseline()
        space = question.target.space()
        gain = self._gains.get(before.config)
        if before.config != baseline and space.contains(before.config):
            check = self._new_run(question, replace(_renamed(question.settings), prior_trials=()))
            checked = self._concluded(question, check.recheck(before.config))
            is_as_before = change.event is Event.DRIFT and gain is not None and _is_same_gain(gain, checked)
            if not check.can_be_watched or is_as_before:
                return check, checked
            baseline, fresh = checked.config, check.trials
        settings = replace(
            _renamed(question.settings).share(LATER_SHARE),
            baseline=None if baseline == question.target.baseline() else baseline,
            prior_trials=_others(fresh, baseline),
        )
        run, result = self._search(replace(question, settings=settings))
        if run.has_failed and gain is not None:
            self._gains[before.config] = gain  # the next check shall find the same change as this one
        return run, result

    def _search(self, question: Question) -> tuple[TuningRun, Result]:
        run = self._new_run(question, question.settings)
        result = self._concluded(question, run.run())
        if not run.has_failed:
            self._trials = run.trials
        return run, result

    def _new_run(self, question: Question, settings: RunSettings) -> TuningRun:
        return TuningRun(
            question.target,
            question.designer,
            settings,
            self._log,
            self._observer,
            clock=self._clock,
            account=self._account,
            is_over=self._is_over,
        )

    def _concluded(self, question: Question, result: Result) -> Result:
        if result.is_complete:
            self._on_decision(result)
        if result.adopted and result.baseline == question.target.baseline():
            self._gains[result.config] = result
        return result

    def _may_act(self) -> bool:
        now_s = self._clock()
        return now_s >= self._next_s and not self._account.is_overdrawn(POLICY, now_s, 0.0)

    def _back_off(self, *, has_changed: bool) -> None:
        self._fruitless = 0 if has_changed else min(self._fruitless + 1, MAX_DOUBLINGS)
        self._next_s = self._clock() + BACK_OFF_S * 2**self._fruitless


def _renamed(settings: RunSettings) -> RunSettings:
    """Return the settings of another run of the same job."""
    return replace(settings, run_id=uuid.uuid4().hex)


def _others(trials: Sequence[Trial], baseline: Config) -> tuple[Trial, ...]:
    """Return the conclusive trials of other configs than the baseline."""
    return tuple(trial for trial in trials if trial.config != baseline and trial.is_conclusive)


def _is_same_gain(before: Result, now: Result) -> bool:
    """Tell whether an adopted config is still faster, by as much as before as far as the intervals tell."""
    if None in (before.ci_low, before.ci_high, now.ci_low, now.ci_high) or not now.adopted:
        return False
    low, high, low_now, high_now = (bound or 0.0 for bound in (before.ci_low, before.ci_high, now.ci_low, now.ci_high))
    return low <= high_now and low_now <= high
