# SPDX-License-Identifier: Apache-2.0
"""Continuous tuning: a search, then a watch over the decision, and after a change a check and perhaps a new search.

A drift need not be caused by the config in force: the default may have drifted as well. The adoption test therefore
compares the two first. A config that is no longer shown to be faster is given up at once. If it is faster by as much as
before, the whole machine has changed, and there is no search. Otherwise a search begins with the config in force as
its baseline and the earlier search as its prior.

Each check and each search is a run of its own in the log. The delay between them doubles while they change nothing, and
together they cost no more of the job's time than a single search may. A failed one is retried, with the same
back-off, until several in a row have failed.

Searches and checks hold the job's turn, which other jobs of the machine wait for; the watch does not.

A resize of the world is not handled here: an engine lives in one world. The next world's first search starts from the
studies that this one left in the store.
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
from .turn import FreeTurn, Turn
from .watch import Change, ChangeKind

BACK_OFF_S = 600.0
"""Delay in seconds after a check or search before the next; doubled after each one that changed nothing."""
MAX_DOUBLINGS = 8
MOST_FAILURES = 3
"""Consecutive failed responses after which the watch ends; the next one would most likely fail, too."""
LATER_SHARE = 2
"""Divisor of the first search's limits that gives the limits of a later one."""


@dataclass(frozen=True)
class Question:
    """Search problem: target, designer and settings."""

    target: Target
    designer: Designer
    settings: RunSettings


QuestionFactory = Callable[[Sequence[Trial]], Question]
"""Factory of the search problem for the job as it is now; takes the trials of the job's last search, as a prior."""


def study_of(space: SearchSpace, trials: Sequence[Trial], seed: int) -> tuple[EarlierStudy, ...]:
    """Return the prior made of earlier trials of the job; none if too few of their configs are legal."""
    legal = [trial for trial in trials if trial.is_conclusive and space.contains(trial.config)]
    return (EarlierStudy(space, legal, seed),) if len(legal) >= MIN_CONFIGS else ()


class ContinuousTuning:
    """Continuous tuning of one job; `run` returns when the job is over, or when there is nothing to watch.

    Attributes:
        is_watching: Whether a decision is in force and no config is being tried; also True once `run` has returned.
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
        end_reason: Callable[[], str] = lambda: "",
        clock: Clock = time.monotonic,
        turn: Turn | None = None,
        trained_s: float = 0.0,
    ) -> None:
        """Prepare; nothing is measured before `run`.

        Args:
            ask: Factory of the search problem, called before each search.
            log: Log of the records; the caller closes it.
            observer: Display of all runs.
            rest: Waits the given number of seconds, or until the job ends.
            on_decision: Called with each decision once it is in force, before the watch over it begins.
            is_over: Whether the job is over; see `TuningRun`.
            end_reason: Reason for an end before the job's; see `TuningRun`.
            clock: Monotonic clock, seconds.
            turn: The job's turn, which has come before `run`; None waits for nobody.
            trained_s: Time for which the job has trained before, seconds: exploration may cost a share of it, too.
        """
        self._turn = FreeTurn() if turn is None else turn
        self._ask = ask
        self._log = log
        self._observer = observer
        self._rest = rest
        self._on_decision = on_decision
        self._is_over = is_over
        self._end_reason = end_reason
        self._clock = clock
        self._account = ExplorationAccount(clock() - trained_s)
        self._trials: tuple[Trial, ...] = ()
        self._gains: dict[Config, Result] = {}  # gains of adopted configs over the default
        self._policy = POLICY
        self._next_s = self._account.began_s
        self._fruitless = 0
        self.is_watching = False

    def run(self) -> None:
        """Tune, watch, and tune again, in the calling thread."""
        try:
            run, result = self._search(self._ask(()))
            self._turn.release()
            failures, unanswered = 0, None
            while run.can_be_watched or 0 < failures < MOST_FAILURES:
                self.is_watching = True
                change = run.watch(self._rest, self._may_act, unanswered)
                self.is_watching = False
                Reporter(self._log, self._observer).warned(f"{change}: the decision is called into question")
                run, decided = self._respond(result, change)
                self._turn.release()
                self._fruitless = 0 if decided.config != result.config else min(self._fruitless + 1, MAX_DOUBLINGS)
                self._next_s = self._clock() + BACK_OFF_S * 2**self._fruitless
                result = decided
                failures, unanswered = (failures + 1, change) if run.has_failed else (0, None)
        except TargetClosed:
            return
        finally:
            self._turn.release()
            self.is_watching = True

    def _respond(self, before: Result, change: Change) -> tuple[TuningRun, Result]:
        """Check the config in force unless it is the default, and search if that may pay off."""
        question = self._ask(self._trials)
        fresh: tuple[Trial, ...] = ()
        baseline = question.target.baseline()
        space = question.target.space()
        gain = self._gains.get(before.config)
        if before.config != baseline and space.contains(before.config):
            check = self._new_run(question, replace(_renamed(question.settings), prior_trials=()))
            checked = self._concluded(question, check.recheck(before.config))
            is_as_before = change.kind is ChangeKind.DRIFT and gain is not None and _is_same_gain(gain, checked)
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
            self._gains[before.config] = gain  # so that the next check finds the same change as this one
        return run, result

    def _search(self, question: Question) -> tuple[TuningRun, Result]:
        run = self._new_run(question, question.settings)
        result = self._concluded(question, run.run())
        if not run.has_failed:
            self._trials = run.trials
        return run, result

    def _new_run(self, question: Question, settings: RunSettings) -> TuningRun:
        self._policy = settings.policy
        return TuningRun(
            question.target,
            question.designer,
            settings,
            self._log,
            self._observer,
            clock=self._clock,
            account=self._account,
            is_over=self._is_over,
            end_reason=self._end_reason,
        )

    def _concluded(self, question: Question, result: Result) -> Result:
        if result.is_complete:
            self._on_decision(result)
        if result.adopted and result.baseline == question.target.baseline():
            self._gains[result.config] = result
        return result

    def _may_act(self) -> bool:
        now_s = self._clock()
        is_allowed = now_s >= self._next_s and not self._account.is_overdrawn(self._policy, now_s, 0.0)
        return is_allowed and self._turn.try_take()


def _renamed(settings: RunSettings) -> RunSettings:
    """Return the settings with a new run id, for another run of the same job."""
    return replace(settings, run_id=uuid.uuid4().hex)


def _others(trials: Sequence[Trial], baseline: Config) -> tuple[Trial, ...]:
    """Return the conclusive trials of all configs but the baseline."""
    return tuple(trial for trial in trials if trial.config != baseline and trial.is_conclusive)


def _is_same_gain(before: Result, now: Result) -> bool:
    """Return whether an adopted config is still faster by about as much: the two intervals overlap."""
    if None in (before.ci_low, before.ci_high, now.ci_low, now.ci_high) or not now.adopted:
        return False
    low, high, low_now, high_now = (bound or 0.0 for bound in (before.ci_low, before.ci_high, now.ci_low, now.ci_high))
    return low <= high_now and low_now <= high
