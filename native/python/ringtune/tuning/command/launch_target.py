# SPDX-License-Identifier: Apache-2.0
"""A command that is launched anew for every measurement, as a `Target`: one launch is one window.

The steps of a window are the step times that the launch yields, however many they are; a launch settles by itself, so
that no step is skipped after a switch. Windows have one byte per step, which makes the log's score steps per second.

Launches at the same time have a thread each, which launches and waits. Everything else happens in the thread that asks
for the windows, in the order of the specs, once all launches have ended.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from ringtune.errors import ConfigError, RingtuneError
from ringtune.tuner import Config, SearchSpace, TargetClosed, VoidReason, Window, WindowSpec
from ringtune.tuning.job.target import BaseTarget

from .atomic_file import replace_file
from .engines import Engine
from .launching import (
    SLOT_VARIABLE,
    CommandLauncher,
    Launched,
    LaunchEnding,
    LaunchLimits,
    failure_text,
    neighbours_text,
)
from .results import DEFAULT_TOLERANCE, Comparison, ResultCheck

BYTES_PER_STEP = 1
TENSOR_SET = 0
"""A launch has no tensor set that could change."""
ENDED = "the user has ended the run"
RELAUNCHES = 3
"""Most further launches after a failure, for a config that has succeeded before."""
TRIAL_COMMENT = "A trial of ringtune tune: written anew for each launch."


@dataclass(frozen=True)
class LaunchEvent:
    """A launch that has ended.

    Attributes:
        config: The config that was set, with the default for each value that has no effect.
        launched: Outcome of the launch.
        at_once: Number of launches at the same time.
    """

    config: Config
    launched: Launched
    at_once: int = 1


class LaunchTarget(BaseTarget):
    """Drives launches of one command under one engine.

    A config whose launches have never succeeded is given up at its first failure: its windows are void, by the reason
    `launch_failed`, without another launch. A config that has succeeded before is launched again. The baseline has to
    succeed the first time: without it there is no time to compare with. A config whose results are not those of the
    baseline is given up at once, whatever it did before; a baseline whose results change ends the run.

    Launches at the same time are made once: another attempt would have other neighbours. The first of them are of the
    baseline, and all have to succeed: otherwise the command cannot run beside itself, and the run ends.

    Attributes:
        given_up: Configs that are not launched any more.
        refusals: Reasons why this run has given configs up, by config.
        error: Reason why the run cannot go on, or None.
        comparison: Extent to which results were compared.
        baseline_launches: Launches of the baseline so far.
        baseline_failures: Launches among them that failed.
    """

    def __init__(
        self,
        engine: Engine,
        space: SearchSpace,
        launcher: CommandLauncher,
        folder: Path,
        timeout_s: float,
        *,
        on_launch: Callable[[LaunchEvent], None],
        given_up: AbstractSet[Config] = frozenset(),
        result_tolerance: float = DEFAULT_TOLERANCE,
    ) -> None:
        """Prepare; no command is launched.

        Args:
            engine: The engine to tune.
            space: The legal configs.
            launcher: Launches the command.
            folder: The absolute output folder; files of trials go into one of their own below it, until `close`.
            timeout_s: Limit of one launch, seconds.
            on_launch: Called after every launch.
            given_up: Configs known to fail, from the log of an unfinished run.
            result_tolerance: Relative difference up to which a result is that of the baseline.
        """
        super().__init__(engine.name, space, engine.baseline())
        self._engine = engine
        self._launcher = launcher
        self._folder = folder / f".trial-{os.getpid()}"  # two runs may write to one folder
        self._timeout_s = timeout_s
        self._on_launch = on_launch
        self._configs: list[Config] = [engine.baseline()]  # by epoch
        self._has_run_at_once = False
        self._steps = 0
        self._succeeded: set[Config] = set()
        self._broken: set[Config] = set()
        self._check = ResultCheck(result_tolerance)
        self.given_up: set[Config] = {engine.effective(config) for config in given_up}
        self.refusals: dict[Config, str] = {}
        self.error: RingtuneError | None = None
        self.baseline_launches = 0
        self.baseline_failures = 0

    @property
    def comparison(self) -> Comparison:
        """Extent to which results were compared."""
        return self._check.comparison

    @property
    def have_all_failed(self) -> bool:
        """True if configs were tried, the command failed with each of them, and the baseline alone has succeeded."""
        return bool(self.refusals) and self.refusals.keys() <= self._broken and self._succeeded <= {self.baseline()}

    def failures_text(self) -> str:
        """Return the addition to a verdict about failed launches; empty where it needs none."""
        text = ""
        if self.have_all_failed:
            text = f", the last with: {[*self.refusals.values()][-1]}"
        if self.baseline_failures:
            counts = f"{self.baseline_failures} of {self.baseline_launches} launches"
            text += f"; the defaults failed {counts}{' too' if self.refusals else ''}"
        return text

    def apply(self, config: Config) -> int:
        """Take `config` for the launches to come; return its epoch."""
        self._configs.append(self._engine.effective(config))
        return len(self._configs) - 1

    def _window(self, spec: WindowSpec) -> Window:
        """Launch once, or more often where a good config fails.

        Raises:
            TargetClosed: If the user wants the end; or with `error` set, if the baseline fails before it has ever
                succeeded, a trial's file cannot be written, or no process can be started.
        """
        config = self._configs[spec.epoch]
        if config in self.given_up:
            return self._void(spec)
        return self._window_of(spec, self._launched(config, spec.limit_ms))

    def windows_at_once(self, specs: Sequence[WindowSpec]) -> Iterator[Window]:
        """Launch once under each spec, all at the same time; yield the windows in the order of the specs.

        Raises:
            TargetClosed: As for a single window; if the user wants the end, after the windows of all complete launches.
        """
        outcomes = self._launched_at_once(specs)
        self._check_neighbours(specs, outcomes)
        for spec, launched in zip(specs, outcomes, strict=True):
            if launched is None:
                yield self._void(spec)
            elif launched.ending is not LaunchEnding.STOPPED:
                yield self._window_of(spec, launched)
        if any(launched is not None and launched.ending is LaunchEnding.STOPPED for launched in outcomes):
            raise TargetClosed(ENDED)

    def _window_of(self, spec: WindowSpec, launched: Launched) -> Window:
        """Return the window of a launch."""
        config = self._configs[spec.epoch]
        if launched.failure:
            self._note_failure(config, launched)
            return self._void(spec)
        self._succeeded.add(config)
        self._steps += len(launched.step_ms)
        was_cut = launched.ending is LaunchEnding.CUT
        return Window(spec.epoch, launched.step_ms, BYTES_PER_STEP, TENSOR_SET, was_cut=was_cut, last_step=self._steps)

    @property
    def end_reason(self) -> str:
        """Reason why the run cannot go on, a sentence without a full stop; empty if the user has ended it."""
        return "" if self.error is None else str(self.error).splitlines()[0].removesuffix(".")

    def close(self) -> None:
        """Remove the files of trials; idempotent."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._folder.parent.rmdir()  # of no use when it is empty

    def _launched(self, config: Config, limit_ms: float) -> Launched:
        launched = self._launched_once(config, limit_ms)
        for _ in range(RELAUNCHES):
            if not launched.failure or launched.complaint or config not in self._succeeded:
                break
            launched = self._launched_once(config, limit_ms)
        return launched

    def _launched_once(self, config: Config, limit_ms: float) -> Launched:
        with self._ended_by_errors():
            return self._noted(config, self._launch(config, limit_ms), at_once=1)

    def _launched_at_once(self, specs: Sequence[WindowSpec]) -> list[Launched | None]:
        """Return the outcome of a launch under each spec; None for a config that was given up before."""
        configs = [self._configs[spec.epoch] for spec in specs]
        with self._ended_by_errors(), ThreadPoolExecutor(len(specs), "ringtune-launch") as pool:
            launches = [
                None if config in self.given_up else pool.submit(self._launch, config, spec.limit_ms, slot)
                for slot, (config, spec) in enumerate(zip(configs, specs, strict=True))
            ]
            at_once = sum(launch is not None for launch in launches)
            return [
                None if launch is None else self._noted(config, launch.result(), at_once=at_once)
                for config, launch in zip(configs, launches, strict=True)
            ]

    @contextlib.contextmanager
    def _ended_by_errors(self) -> Iterator[None]:
        """End the run if the user wants it, or if a launch cannot be made."""
        if self._launcher.is_stopped:
            raise TargetClosed(ENDED)
        try:
            yield
        except ConfigError as error:
            self.error = error
            raise TargetClosed(str(error)) from error

    def _noted(self, config: Config, launched: Launched, *, at_once: int) -> Launched:
        """Count and show a launch; return it with the complaint about its results."""
        launched = self._checked(config, launched)
        if config == self.baseline():
            self.baseline_launches += 1
            self.baseline_failures += bool(launched.failure)
        self._on_launch(LaunchEvent(config, launched, at_once))
        return launched

    def _launch(self, config: Config, limit_ms: float, slot: int = 0) -> Launched:
        """Launch the command with files of its own; called in any thread, with another slot in each."""
        folder = self._folder / str(slot)
        for file in self._engine.trial_files(config, folder, TRIAL_COMMENT):
            replace_file(folder / file.name, file.content)
        variables = {SLOT_VARIABLE: str(slot), **self._engine.variables(config, folder)}
        command = self._engine.command_of(config, folder, self._launcher.command)
        return self._launcher.launch(variables, LaunchLimits(self._timeout_s, limit_ms), command)

    def _checked(self, config: Config, launched: Launched) -> Launched:
        """Return a launch with the complaint about its results."""
        if launched.failure:
            return launched
        is_whole = launched.ending is LaunchEnding.BY_ITSELF
        check = self._check.baseline_problem if config == self.baseline() else self._check.problem
        return replace(launched, complaint=check(launched.results, is_whole=is_whole))

    def _check_neighbours(self, specs: Sequence[WindowSpec], outcomes: Sequence[Launched | None]) -> None:
        """End the run if the command fails the first time that it runs beside itself."""
        of_baseline = [launched for launched in outcomes if launched is not None]
        if self._has_run_at_once or any(launched.ending is LaunchEnding.STOPPED for launched in of_baseline):
            return
        self._has_run_at_once = True
        failed = [launched for launched in of_baseline if launched.failure]
        if failed:
            self.error = ConfigError(neighbours_text(self._launcher.command, failed[0], len(failed), len(specs)))
            raise TargetClosed("the command fails beside itself")

    def _note_failure(self, config: Config, launched: Launched) -> None:
        if launched.ending is LaunchEnding.STOPPED:
            raise TargetClosed(ENDED)
        if config in self._succeeded and not launched.complaint:
            return
        if config == self.baseline():
            self.error = RingtuneError(failure_text(self._launcher.command, launched))
            raise TargetClosed("the command fails without anything being set")
        self.given_up.add(config)
        self.refusals[config] = launched.failure_with_words
        if launched.is_broken:
            self._broken.add(config)

    def _void(self, spec: WindowSpec) -> Window:
        reason = VoidReason.LAUNCH_FAILED
        return Window(spec.epoch, (), BYTES_PER_STEP, TENSOR_SET, reason, last_step=self._steps)
