# SPDX-License-Identifier: Apache-2.0
"""The policy of `ringtune tune` on a measured space: its target, settings and designer, with launches from the table.

The command has a knob of kind `choice` for each of the space's, as a user would write it in a knob file.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner import (
    Config,
    Designer,
    Prediction,
    SearchSpace,
    SilentObserver,
    Suggestion,
    Trial,
    TuningRun,
    open_log,
)
from ringtune.tuner.designers import DesignerWrapper
from ringtune.tuning.command.any_command import KnobFile, command_engine
from ringtune.tuning.command.engines import Engine
from ringtune.tuning.command.launch_target import LaunchTarget
from ringtune.tuning.command.launching import CommandLauncher, Launched, LaunchEnding, LaunchLimits
from ringtune.tuning.command.scores import STEP_LINE, LineScore
from ringtune.tuning.command.stop_request import StopRequest
from ringtune.tuning.command.tune import TuneRequest, launch_designer, launch_settings

from .outcomes import Choice
from .spaces import Launches, MeasuredSpace

COMMAND = ("measured",)
NO_FOLDER = Path("measured")
"""Folder of files that no launch needs."""


MakeDesigner = Callable[[SearchSpace, int], Designer]
"""Designer from a space and a seed."""


def policy(
    designer: str, *, make: MakeDesigner | None = None, counts_all: bool = False
) -> Callable[[MeasuredSpace, Sequence[int], int], Mapping[int, Choice]]:
    """Return the whole policy with a designer, once for each budget.

    Args:
        designer: Name of the designer.
        make: Makes another in its place.
        counts_all: Whether the budget is `--max-steps`, all launches; else it is `--max-samples`, the configs to try,
            beside which the baseline and the adoption test have launches of their own.
    """

    def choose(space: MeasuredSpace, budgets: Sequence[int], seed: int) -> Mapping[int, Choice]:
        request = TuneRequest("command", COMMAND, NO_FOLDER, seed=seed, designer=designer)
        limit = "max_steps" if counts_all else "max_samples"
        requests = {budget: replace(request, **{limit: budget}) for budget in budgets}  # type: ignore[arg-type]
        return {budget: tuned(space, each, make) for budget, each in requests.items()}

    return choose


def tuned(space: MeasuredSpace, request: TuneRequest, make: MakeDesigner | None = None) -> Choice:
    """Return the choice of a run of `ringtune tune`; `make` makes another designer than the request's."""
    request.check()
    engine = engine_of(space)
    launches = Launches(space, request.seed)
    with closing(StopRequest()) as stop:
        launcher = TableLauncher(launches, stop)
        target = LaunchTarget(
            engine, engine.space({}), launcher, NO_FOLDER, request.trial_timeout_s, on_launch=lambda _: None
        )
        box = target.space()
        designer = TimedDesigner(launch_designer(request, box) if make is None else make(box, request.seed))
        result = TuningRun(
            target,
            designer,
            launch_settings(request),
            open_log(None),
            SilentObserver(),
            clock=launches.clock,
            end_reason=lambda: target.end_reason,
        ).run()
    return Choice(result.config, launches.count, launches.failed, designer.cpu_s / max(designer.suggestions, 1))


def engine_of(space: MeasuredSpace) -> Engine:
    """Return the engine of a command with the space's knobs, each in a variable of its name."""
    knobs = [
        {
            "name": name,
            "type": "choice",
            "choices": list(values),
            "default": space.default[name],
            "pass": {"variable": name},
        }
        for name, values in space.knobs.items()
    ]
    return command_engine("command", KnobFile.model_validate({"knobs": knobs}), COMMAND)


class TableLauncher(CommandLauncher):
    """Launches that look their time up. Each prints one score, or fails."""

    def __init__(self, launches: Launches, stop: StopRequest) -> None:
        """Draw from `launches`."""
        super().__init__(COMMAND, {}, LineScore.of(STEP_LINE, higher_is_better=False), stop)
        self._launches = launches

    def launch(
        self, variables: Mapping[str, str], limits: LaunchLimits, command: Sequence[str] | None = None
    ) -> Launched:
        """Return a run of the config that the variables set."""
        del limits, command
        space = self._launches.space
        set_knobs = {name: value for name, value in variables.items() if name in space.knobs}
        ms = self._launches.launch(space.default.replace(set_knobs))
        if ms is None:
            return Launched((), LaunchEnding.BY_ITSELF, 1, 0.0, ())
        return Launched((ms,), LaunchEnding.BY_ITSELF, 0, ms * 1e-3, ())


class TimedDesigner(DesignerWrapper):
    """A designer whose CPU time is taken.

    Attributes:
        cpu_s: CPU time of all calls so far, seconds.
        suggestions: Number of suggestions so far.
    """

    cpu_s = 0.0
    suggestions = 0

    def update(self, trials: Sequence[Trial]) -> None:
        """Replace the data."""
        with _Timed(self):
            super().update(trials)

    def suggest(self) -> Suggestion:
        """Return the config to try next."""
        self.suggestions += 1
        with _Timed(self):
            return super().suggest()

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the posterior."""
        with _Timed(self):
            return super().predict(configs)

    def covariance(self, configs: Sequence[Config]) -> NDArray[np.float64]:
        """Return the posterior covariances."""
        with _Timed(self):
            return super().covariance(configs)


class _Timed:
    """Adds the CPU time that passes inside to a designer's; the policy's thread waits meanwhile."""

    def __init__(self, designer: TimedDesigner) -> None:
        self._designer = designer

    def __enter__(self) -> None:
        self._began_s = time.process_time()

    def __exit__(self, *error: object) -> None:
        self._designer.cpu_s += time.process_time() - self._began_s
