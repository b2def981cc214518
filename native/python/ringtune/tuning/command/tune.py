# SPDX-License-Identifier: Apache-2.0
"""`ringtune tune`: wires an engine, a command and the tuner's policy, and writes the winner for the engine to read."""

import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ringtune.errors import ConfigError
from ringtune.system.console import write_line
from ringtune.system.usable_cores import usable_cores
from ringtune.tuner import (
    DEFAULT_DESIGNER,
    MAX_SECONDS,
    MAX_STEPS,
    Designer,
    Result,
    RunSettings,
    SearchSpace,
    TuningLog,
    TuningRun,
    designer_names,
    make_designer,
    open_log,
    sample_limit,
)
from ringtune.tuner.logs.earlier import LIMITS, find_earlier, joined
from ringtune.tuner.logs.file import advice_on
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuning.job.log_sinks import LogSinks
from ringtune.version import __version__

from .atomic_file import check_folder, replace_file
from .engines import Engine, WinnerFile, engine_names, find_engine
from .going_on import chosen_start
from .knob_report import KnobSetting, RunRecorder, knob_rows
from .launch_target import LaunchEvent, LaunchTarget
from .launching import CommandLauncher
from .report import (
    PREFIX,
    LaunchDisplay,
    comment_text,
    median_of,
    print_table,
    result_table,
    rows_table,
    settings_text,
)
from .results import DEFAULT_TOLERANCE, ResultPattern
from .scores import STEP_LINE, LineScore, Score, WallScore
from .stop_request import StopRequest, stop_on_signals
from .study_key import study_key
from .turn import turn_on_host

if TYPE_CHECKING:
    from .shared_search import SharedStudy

EXIT_DONE = 0
EXIT_ALL_FAILED = 1
SIGNAL_BASE = 128
MAX_TIMEOUT_S = 86_400.0
MAX_PARALLEL = 256
"""Most launches at the same time: each has a thread and three file descriptors here, wherever it computes."""


@dataclass(frozen=True)
class TuneRequest:
    """A request to tune one command under one engine.

    Attributes:
        target: Name of an engine, as in `engine_names`, or command, deepspeed or megatron.
        command: Program and arguments.
        output: Folder for the winner's files.
        log: The tuning log, JSON Lines. An unfinished run in it is resumed, and a finished one gone on from if the
            budget is larger now. None keeps none.
        score_regex: Finds a score in the command's output, by its one group; None is `STEP_LINE`.
        score_wall: True takes the duration of the whole launch as the score.
        higher_is_better: True where a higher score of the regex is better.
        max_samples: Most configs to try; None for 20, or for no limit beside one of steps or seconds.
        max_steps: Most scored steps of all launches; None sets no limit. A launch that prints one score, or whose
            duration is the score, is one step.
        max_seconds: Most seconds of all launches; None sets no limit. A launch that has begun is not ended for it.
        pairs: Most pairs of the adoption test; each launches twice.
        parallel: Launches at the same time; the pairs of the adoption test are launched one by one.
        shared: True searches together with all machines that run the same command against the service of
            `AUTOTUNE_SERVICE_URL`; then `max_samples` is 20 unless it is given.
        seed: Seed of every random choice.
        trial_timeout_s: Limit of one launch, seconds.
        designer: One of `designer_names`.
        only: Knobs to vary; empty for all.
        result_tolerance: Relative difference up to which a result that the command prints is that of the baseline.
        result_regex: Finds the results in the output, by its one group; None for the lines of `step_report`.
        knobs: The knob file of the target command; None takes the one in the package for deepspeed and megatron.
        anew: True goes on from no run of the log.
    """

    target: str
    command: tuple[str, ...]
    output: Path
    log: Path | None = None
    score_regex: str | None = None
    score_wall: bool = False
    higher_is_better: bool = False
    max_samples: int | None = None
    max_steps: int | None = None
    max_seconds: float | None = None
    pairs: int = 6
    parallel: int = 1
    shared: bool = False
    seed: int = 0
    trial_timeout_s: float = 600.0
    designer: str = DEFAULT_DESIGNER
    only: tuple[str, ...] = ()
    result_tolerance: float = DEFAULT_TOLERANCE
    result_regex: str | None = None
    knobs: Path | None = None
    anew: bool = False

    def check(self) -> None:
        """Raise `ConfigError` for numbers out of range and for options that contradict each other."""
        if not self.command:
            raise ConfigError("there is no command to launch; give one after --, such as -- mpirun -n 4 ./app")
        if self.score_wall and (self.score_regex is not None or self.higher_is_better):
            raise ConfigError("--score wall is the launch's duration; leave out --score-regex and --higher-is-better")
        limits = (
            ("--max-samples", self.max_samples, 1, 10_000),
            ("--max-steps", self.max_steps, 1, MAX_STEPS),
            ("--max-seconds", self.max_seconds, 1, int(MAX_SECONDS)),
            ("--pairs", self.pairs, 2, 1000),
            ("--parallel", self.parallel, 1, MAX_PARALLEL),
        )
        for option, value, least, most in limits:
            if value is not None and not least <= value <= most:
                raise ConfigError(f"{option} {value} is not possible; allowed: {least} to {most}")
        self._check_fractions()
        if self.designer not in designer_names():
            raise ConfigError(f"--designer {self.designer}: not known; known are {', '.join(designer_names())}")

    def _check_fractions(self) -> None:
        if not 0 < self.trial_timeout_s <= MAX_TIMEOUT_S:
            given = f"--trial-timeout-s {self.trial_timeout_s:g}"
            raise ConfigError(f"{given} is not possible; allowed: over 0, up to {MAX_TIMEOUT_S:g} s")
        if not 0 <= self.result_tolerance < 1:
            raise ConfigError(f"--result-tolerance {self.result_tolerance:g} is not possible; allowed: 0 to below 1")


def run_tune(request: TuneRequest, environ: Mapping[str, str], console: Console) -> int:
    """Tune a command to the end.

    Args:
        request: The request.
        environ: Environment of the launches; knobs that it sets are left alone.
        console: Takes the result.

    Returns:
        0 when the run came to a decision, 1 when all tried configs failed, 128 + the signal when the user ended it.

    Raises:
        ConfigError: If the request is not possible, or a file cannot be written.
        RingtuneError: If the command fails without anything being set.
    """
    request.check()
    request, engine = _with_engine(request)
    if shutil.which(request.command[0], path=environ.get("PATH")) is None:
        raise ConfigError(f"{request.command[0]!r} cannot be launched: there is no such program; check the command")
    space = engine.space(environ, request.only)
    check_folder(request.output.absolute())
    for name, variable in engine.set_by_user(environ).items():
        write_line(f"{PREFIX} {variable} is set in the environment: {name} is left alone")
    if request.parallel > (cores := usable_cores()):
        write_line(
            f"{PREFIX} warning: --parallel {request.parallel} is more than the {cores} processors that this process "
            "may use; unless the launches compute elsewhere, they disturb each other"
        )
    with stop_on_signals() as stop, turn_on_host(environ, stop) as has_turn:
        if not has_turn:
            return SIGNAL_BASE + stop.signal_number
        run = _CommandTuning(request, engine, space, environ, stop)
        result = run.tune()
        return _conclude(run, result, stop.signal_number, console)


class _CommandTuning:
    """One tuning run of one command."""

    def __init__(
        self, request: TuneRequest, engine: Engine, space: SearchSpace, environ: Mapping[str, str], stop: StopRequest
    ) -> None:
        self.request = request
        self.engine = engine
        self.folder = request.output.absolute()
        self.score = score = _score_of(request)
        self.knobs = KnobSetting(space, engine.set_by_user(environ), engine.effective)
        self.recorder = RunRecorder(open_log(None))
        self.display = LaunchDisplay(engine.baseline(), self._failures_text, score.shown)
        self.baseline_ms: list[float] = []
        self._settings = _run_settings(request, engine, space, score)
        pattern = ResultPattern.of(request.result_regex)
        launcher = CommandLauncher(request.command, environ, score, stop, pattern=pattern)
        earlier = self._settings.earlier
        self.target = LaunchTarget(
            engine,
            space,
            launcher,
            self.folder,
            request.trial_timeout_s,
            on_launch=self._note,
            given_up=earlier.failed,
            result_tolerance=request.result_tolerance,
        )
        self.shared: SharedStudy | None = None
        self._environ, self._space = environ, space

    def tune(self) -> Result:
        try:
            log = open_log(self.request.log)
        except OSError as error:
            raise ConfigError(
                f"--log {self.request.log} cannot be written: {error.strerror or error}; {advice_on(error)}"
            ) from error
        designer = launch_designer(self.request, self._space)
        if self.request.shared:
            designer, log = self._sharing(designer, log)
        self.recorder = RunRecorder(log)
        with closing(self.recorder), closing(self.target):
            return TuningRun(
                self.target,
                designer,
                self._settings,
                self.recorder,
                self.display,
                end_reason=lambda: self.target.end_reason,
            ).run()

    def _sharing(self, designer: Designer, log: TuningLog) -> tuple[Designer, TuningLog]:
        """Join the study at the service; return the designer and the log that it takes part in."""
        from .shared_search import SharedDesigner, SharedStudy  # noqa: PLC0415  (httpx is slow to import)

        settings, timeout_s = self._settings, self.request.trial_timeout_s
        self.shared = SharedStudy(self._environ, settings, self._space, timeout_s, self.display.warned)
        write_line(f"{PREFIX} searching together with other machines; the study: {self.shared.page or 'no page'}")
        assert settings.max_samples is not None
        return SharedDesigner(designer, self.shared, settings.max_samples), LogSinks([log, self.shared])

    @property
    def has_nothing_but_failures(self) -> bool:
        """True if every config that was tried has failed, in earlier runs that this one goes on from as well."""
        return self.target.have_all_failed and not self._settings.earlier.measured

    @property
    def records(self) -> RunLog:
        """Records of the run, and of those that it goes on from."""
        return joined(self.recorder.run, {log.run_id: log for log in self._settings.earlier.logs})

    def _failures_text(self) -> str:
        return self.target.failures_text()

    def _note(self, event: LaunchEvent) -> None:
        self.display.launched(event)
        if event.config == self.engine.baseline() and not event.launched.failure and event.at_once == 1:
            self.baseline_ms.append(median_of(event.launched.step_ms))


def _conclude(run: _CommandTuning, result: Result, signal_number: int, console: Console) -> int:
    if run.target.error is not None:
        raise run.target.error
    if signal_number:
        write_line(f"{PREFIX} {_interrupted_text(run, result)}")
        print_table(rows_table([("ended", result.ended), *_knob_rows(run)]), console)
        return SIGNAL_BASE + signal_number
    result = replace(result, verdict=result.verdict + run.target.failures_text())
    written: dict[Path, WinnerFile] = {}
    if result.adopted:
        result = replace(result, config=run.engine.effective(result.config))
    try:
        if result.adopted:
            comment = comment_text(run.engine.name, run.request.command, result)
            for file in run.engine.winner_files(result.config, run.folder, comment):
                replace_file(run.folder / file.name, file.content, is_executable=file.is_executable)
                written[run.folder / file.name] = file
    finally:  # the winner is shown even where its file cannot be written
        _show(run, result, written, console)
    return EXIT_ALL_FAILED if run.has_nothing_but_failures else EXIT_DONE


def _show(run: _CommandTuning, result: Result, written: Mapping[Path, WinnerFile], console: Console) -> None:
    baseline = run.score.shown(median_of(run.baseline_ms)) if run.baseline_ms else None
    print_table(result_table(result, written, baseline, run.target.comparison, run.target.refusals), console)
    shared = [("all machines", run.shared.outcome_text(result.baseline))] if run.shared else []
    if rows := [*shared, *_knob_rows(run)]:
        print_table(rows_table(rows), console)


def _knob_rows(run: _CommandTuning) -> list[tuple[str, str]]:
    """Return the report on the knobs; a table of its own, so that no fault in it costs the result's."""
    from ringtune.tuner.review import review_run  # noqa: PLC0415  (numpy is slow to import)

    return knob_rows(review_run(run.records), run.knobs)


def _interrupted_text(run: _CommandTuning, result: Result) -> str:
    text = "ended by a signal before there was a decision; nothing is written for the engine."
    text += f" {result.verdict[0].upper()}{result.verdict[1:]}."
    if run.display.best is not None:
        best_ms, config = run.display.best
        text += f" The best launch so far, which no test has confirmed: {run.score.shown(best_ms)} with "
        text += f"{settings_text(config, run.engine.baseline())}."
    if run.request.log is None:
        return f"{text} With --log FILE a run can be resumed."
    return f"{text} The same command line resumes from {run.request.log}."


def _with_engine(request: TuneRequest) -> tuple[TuneRequest, Engine]:
    """Return the engine, and the request with a knob file's settings where the request has none."""
    if request.target in engine_names():
        if request.knobs is not None:
            raise ConfigError(f"--knobs describes the knobs of a command; --target {request.target} has its own")
        return request, find_engine(request.target)
    from .any_command import COMMAND_TARGETS, command_engine, knobs_for  # noqa: PLC0415  (pydantic is slow to import)

    if request.target not in COMMAND_TARGETS:
        known = ", ".join((*engine_names(), *COMMAND_TARGETS))
        raise ConfigError(f"--target {request.target}: not known; known are {known}")
    knobs = knobs_for(request.target, request.knobs)
    own_score = request.score_wall or request.score_regex is not None
    request = replace(
        request,
        score_regex=request.score_regex if own_score else knobs.score_regex,
        higher_is_better=request.higher_is_better or (knobs.higher_is_better and not own_score),
        result_regex=request.result_regex or knobs.result_regex,
    )
    return request, command_engine(request.target, knobs, request.command)


def _score_of(request: TuneRequest) -> Score:
    if request.score_wall:
        return WallScore()
    return LineScore.of(request.score_regex or STEP_LINE, higher_is_better=request.higher_is_better)


def launch_settings(request: TuneRequest) -> RunSettings:
    """Return the settings of a run of launches: budget, windows and adoption test, without the study's identity."""
    other_limits = (None, None) if request.shared else (request.max_steps, request.max_seconds)
    return RunSettings(
        max_samples=sample_limit(request.max_samples, *other_limits),
        max_steps=request.max_steps,
        max_seconds=request.max_seconds,
        fixed_windows=True,
        at_once=request.parallel,
        warmup_steps=0,  # every launch warms up by itself
        seed=request.seed,
        adoption_pairs=request.pairs,
        nothing_to_tune="nothing to tune, every knob is set in the environment or left out by --only",
    )


def launch_designer(request: TuneRequest, space: SearchSpace) -> Designer:
    """Return the designer of a run of launches in a space."""
    return make_designer(request.designer, space, request.seed, are_trials_cheap=True)


def _run_settings(request: TuneRequest, engine: Engine, space: SearchSpace, score: Score) -> RunSettings:
    key = study_key(request.target, request.command, engine, score)
    settings = launch_settings(request)
    found = find_earlier(request.log, key, space.to_json(), request.seed)
    earlier, line = chosen_start(found, {name: getattr(settings, name) for name in LIMITS}, is_anew=request.anew)
    if line:
        write_line(f"{PREFIX} {line}")
    return replace(settings, key=key, versions={"ringtune": __version__}, goes_on_from=earlier)
