# SPDX-License-Identifier: Apache-2.0
"""A job that changes after an hour, and a tuning of it that lasts for hours of its time."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ringtune.tuner import (
    Config,
    ContinuousTuning,
    Phase,
    Question,
    Result,
    RunSettings,
    Trial,
    Window,
    WindowSpec,
    make_designer,
    study_of,
)
from ringtune.tuner.logs.records import AdoptionRecord, Record, ResultRecord, RunRecord, SampleRecord
from ringtune.tuner.logs.store import KeepingLog
from ringtune.tuner.policy.turn import Turn
from ringtune.tuner.testing import (
    Disturbances,
    SyntheticTarget,
    engine_like_surface,
    poor_baseline,
)
from ringtune.tuning.job.log_sinks import LogSinks
from tests.unit.tuner.recording import RecordingLog, RecordingObserver

HOUR_S = 3600.0
CHANGE_S = 1.0 * HOUR_S
Change = Callable[[Config], float]
"""Function from a config to the change of ln(step time) from CHANGE_S on."""


class ChangingTarget(SyntheticTarget):
    """A job on the engine-like surface until CHANGE_S; then something is added, or other tensors are reduced."""

    def __init__(self, change: Change, *, tensor_set: int | None = None, **options: object) -> None:
        """Change so; and if `tensor_set` is given, to it."""
        self._change = change
        self._later_set = tensor_set
        options = {"baseline": poor_baseline(), "seed": 3} | options
        super().__init__(surface=self._now, **options)  # type: ignore[arg-type]

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield windows of the tensors of the day."""
        for window in super().windows(spec):
            later = self._later_set is not None and self.now_s > CHANGE_S
            yield replace(window, tensor_set=self._later_set) if later else window  # type: ignore[arg-type]

    def _now(self, config: Config) -> float:
        return engine_like_surface(config) + (self._change(config) if self.now_s > CHANGE_S else 0.0)


def _raise(trials: Sequence[Trial]) -> None:
    raise ZeroDivisionError(len(trials))


@dataclass
class Job:
    """A job that was tuned to its end.

    Attributes:
        log: The log as the engine's wiring keeps it.
        records: The log's records.
        observer: Messages that people got.
        asked: The trials that came with each question.
        kept: Run ids that were there to be kept after each decision.
    """

    log: KeepingLog
    records: list[Record]
    observer: RecordingObserver
    asked: list[Sequence[Trial]] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    @property
    def runs(self) -> list[RunRecord]:
        """The records that begin runs."""
        return [record for record in self.records if isinstance(record, RunRecord)]

    @property
    def verdicts(self) -> list[str]:
        """The verdicts, in order."""
        return [record.verdict for record in self.records if isinstance(record, AdoptionRecord)]

    @property
    def results(self) -> list[ResultRecord]:
        """The results, in order."""
        return [record for record in self.records if isinstance(record, ResultRecord)]

    def samples(self, phase: Phase) -> list[SampleRecord]:
        """Return the samples of a phase."""
        return [r for r in self.records if isinstance(r, SampleRecord) and r.phase == phase]


def tune_for(
    target: SyntheticTarget,
    hours: float,
    *,
    spent_s: float = 0.0,
    fails: Collection[int] = (),
    turn: Turn | None = None,
    trained_s: float = 0.0,
    **settings: object,
) -> Job:
    """Tune a target for so many hours of its time, with so much spent on searches before.

    The designers of those questions raise whose numbers `fails` has, from 0. Training began `trained_s` before.
    """
    kept = RecordingLog()
    log = KeepingLog()
    job = Job(log, kept.records, RecordingObserver())

    def ask(earlier: Sequence[Trial]) -> Question:
        job.asked.append(earlier)
        space = target.space()
        made = make_designer("random", space, 0, study_of(space, earlier, 0))
        if len(job.asked) - 1 in fails:
            made.update = _raise  # type: ignore[method-assign]
        return Question(target, made, RunSettings(**{"max_samples": 12, **settings}))  # type: ignore[arg-type]

    def rest(seconds: float) -> None:
        target.now_s += seconds
        if target.now_s > hours * HOUR_S:
            target._disturbances = Disturbances(closes_after_windows=0)

    def keep(_: Result) -> None:
        job.kept += {record.run_id for record in log.finished_run()}

    sinks = LogSinks([log, kept])
    tuning = ContinuousTuning(
        ask, sinks, job.observer, rest=rest, on_decision=keep, clock=target.clock, turn=turn, trained_s=trained_s
    )
    tuning._account.spent_s = spent_s
    tuning.run()
    return job


def late_optimum(config: Config) -> float:
    """Return a change that makes the default slower, and the gain of fusion over 16 MiB much larger."""
    if config == poor_baseline():
        return 0.3
    return -0.5 if float(config["fusion_bytes"]) > 16 * 2**20 else 0.2
