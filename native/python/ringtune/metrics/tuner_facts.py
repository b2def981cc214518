# SPDX-License-Identifier: Apache-2.0
"""Facts of this process's tuner: noted by the tuning thread, read by the metrics' server."""

import copy
import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from statistics import median

from ringtune.tuner import Phase, Progress, Result
from ringtune.tuner.logs.records import Record, RunRecord, SampleRecord, SuggestionRecord
from ringtune.tuner.policy.trials import BASELINE_ID

from .run_cost import RunCost

SCORES_PER_TRIAL = 32  # the newest; a watch goes on for weeks


@dataclass
class RunSoFar:
    """The newest tuning run.

    Attributes:
        phase: Phase of the run; None before the first.
        item: Number of the phase's samples, or pairs of the adoption test, that are done.
        items: Number that the phase takes; None where it is not known.
        seconds_left: Estimate for the run; None without one.
        step_s: Median step time of the newest valid window, seconds.
        score_bytes_per_s: Its score.
        scores: The newest scores by trial, warmup left out.
        cost: Cost so far; None before the run began, and once it is over.
    """

    phase: Phase | None = None
    item: int = 0
    items: int | None = None
    seconds_left: float | None = None
    step_s: float | None = None
    score_bytes_per_s: float | None = None
    scores: dict[int, deque[float]] = field(default_factory=dict)
    cost: RunCost | None = None

    @property
    def cost_s(self) -> float:
        """Cost so far of the run that goes on, seconds; 0 while none does."""
        return 0.0 if self.cost is None else self.cost.seconds

    @property
    def baseline_score_bytes_per_s(self) -> float | None:
        """Median score of the baseline, bytes per second; None before it was measured."""
        return median(self.scores[BASELINE_ID]) if BASELINE_ID in self.scores else None

    @property
    def best_score_bytes_per_s(self) -> float | None:
        """The highest median score of any trial, bytes per second; None before one was measured."""
        return max((median(scores) for scores in self.scores.values()), default=None)


@dataclass
class TunerState:
    """Facts of the tuner since the job began.

    Attributes:
        run: The newest tuning run.
        began_unix_s: When the first run began; None before.
        windows: Windows by phase.
        void_windows: Windows among them that gave no sample, by reason.
        suggestions: Suggestions by designer.
        design_s: Time that designers took to find them, seconds.
        decisions: Runs that are over, by `adopted`, `kept` or `unfinished`.
        exploration_s: Cost of the runs that are over, seconds.
        result: Result of the newest run that is over.
        speedup: Speed-up of the newest run that tested one: estimate, lower and upper end of its interval.
        warnings: Warnings that people were given.
    """

    run: RunSoFar = field(default_factory=RunSoFar)
    began_unix_s: float | None = None
    windows: Counter[str] = field(default_factory=Counter)
    void_windows: Counter[str] = field(default_factory=Counter)
    suggestions: Counter[str] = field(default_factory=Counter)
    design_s: float = 0.0
    decisions: Counter[str] = field(default_factory=Counter)
    exploration_s: float = 0.0
    result: Result | None = None
    speedup: tuple[float, float, float] | None = None
    warnings: int = 0


class TunerFacts:
    """Observer and log sink that keeps figures for metrics; `state` may be called from any thread."""

    def __init__(self) -> None:
        """Begin with the facts of a tuner without a run."""
        self._lock = threading.Lock()
        self._state = TunerState()

    def state(self) -> TunerState:
        """Return a copy of the facts."""
        with self._lock:
            return copy.deepcopy(self._state)

    def progress(self, progress: Progress) -> None:
        """Note where the run stands."""
        with self._lock:
            run = self._state.run
            run.phase, run.item, run.items = progress.phase, progress.sample, progress.samples_total
            run.seconds_left = progress.seconds_left

    def finished(self, result: Result) -> None:
        """Note a run's outcome, gain and cost; the gain of one run does not pay for another."""
        outcome = "adopted" if result.adopted else "kept"
        with self._lock:
            state = self._state
            state.decisions[outcome if result.is_complete else "unfinished"] += 1
            state.exploration_s += max(result.cost_s, 0.0)
            state.result = result
            state.run.seconds_left = state.run.cost = None
            if result.speedup is not None and result.ci_low is not None and result.ci_high is not None:
                state.speedup = result.speedup, result.ci_low, result.ci_high

    def warned(self, text: str) -> None:
        """Count a warning."""
        del text
        with self._lock:
            self._state.warnings += 1

    def waiting(self, text: str) -> None:
        """Ignore it: a job that waits for its turn has no run."""

    def write(self, record: Record) -> None:
        """Take a record, as a log sink."""
        with self._lock:
            if isinstance(record, RunRecord):
                self._begin_run(record)
            elif isinstance(record, SampleRecord):
                self._add_window(record)
            elif isinstance(record, SuggestionRecord):
                self._state.suggestions[record.designer] += 1
                self._state.design_s += record.ask_ms * 1e-3

    def close(self) -> None:
        """Keep the figures for scrapes after the log's end."""

    def _begin_run(self, record: RunRecord) -> None:
        before = self._state.result
        in_force = record.baseline if before is None else before.config
        self._state.run = RunSoFar(phase=self._state.run.phase, cost=RunCost(in_force))
        if self._state.began_unix_s is None:
            self._state.began_unix_s = record.unix_time_s

    def _add_window(self, record: SampleRecord) -> None:
        run = self._state.run
        self._state.windows[record.phase] += 1
        if run.cost is not None:
            run.cost.add(record)
        if record.reason is not None:
            self._state.void_windows[record.reason] += 1
        if not record.valid or record.score_bytes_per_s is None:
            return
        run.step_s, run.score_bytes_per_s = record.step_ms["median"] * 1e-3, record.score_bytes_per_s
        if record.phase != Phase.WARMUP:
            scores = run.scores.setdefault(record.trial_id, deque(maxlen=SCORES_PER_TRIAL))
            scores.append(record.score_bytes_per_s)
