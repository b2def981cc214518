# SPDX-License-Identifier: Apache-2.0
"""Configs that fail: the trials that designers hear of, and their way through the log."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.fsdp.settings import FsdpSettings, fsdp_space
from ringtune.tuner import (
    Config,
    Phase,
    Sample,
    StepTimes,
    Trial,
    VoidReason,
    make_designer,
    open_log,
    read_log,
)
from ringtune.tuner.designers import DesignerWrapper
from ringtune.tuner.logs.records import RunRecord, sample_record
from ringtune.tuner.testing import measured_trial
from ringtune.tuning.command.engines import find_engine
from ringtune.tuning.job.failing_configs import FailureAwareDesigner, FittingDesigner, configs_over_limit

ENGINE = find_engine("horovod")
SPACE = ENGINE.space({})
FAST = ENGINE.baseline().replace({"cycle_ms": 1.5})
BROKEN = ENGINE.baseline().replace({"cycle_ms": 3.5})
KEY = {"target": "horovod"}


def void_sample(config: Config, trial_id: int = 2) -> Sample:
    """Return the sample of a failed launch."""
    times = StepTimes.of(())
    return Sample(trial_id, config, Phase.SEARCH, 7, math.nan, times, 0, VoidReason.LAUNCH_FAILED)


def test_what_failed_before_a_kill_is_told_too() -> None:
    """Although it is in none of the resumed run's trials; a config that was tried since is not told."""
    told: list[Trial] = []

    class Listener(DesignerWrapper):
        """Keeps the trials that it gets."""

        def update(self, trials: Sequence[Trial]) -> None:
            """Keep the trials."""
            told[:] = trials

    designer = FailureAwareDesigner(Listener(make_designer("random", SPACE, 3)), {BROKEN, FAST})
    trials = [measured_trial(0, ENGINE.baseline(), [20.0, 20.1]), measured_trial(1, FAST, [40.0, 40.2])]

    designer.update(trials)

    assert trials == told[:2]
    assert [(BROKEN, True)] == [(trial.config, trial.has_failed) for trial in told[2:]]


def write_limited_run(path: Path, limit_bytes: int | None, key: dict[str, str] = KEY) -> None:
    """Append a run in which the broken config needed more memory than a limit."""
    log = open_log(path)
    baseline = ENGINE.baseline().to_json()
    run = RunRecord(0.0, "limited", 1, 0.0, None, key, {}, {}, SPACE.to_json(), {}, baseline, 0, {})
    log.write(replace(run, memory_limit_bytes=limit_bytes))
    sample = replace(void_sample(BROKEN), reason=VoidReason.MEMORY_LIMIT)
    log.write(sample_record(sample, t_s=1.0, run_id="limited", window=0))
    log.close()


@pytest.mark.parametrize(("limit_bytes", "found"), [(1000, {BROKEN}), (1050, {BROKEN}), (2000, set()), (10, {BROKEN})])
def test_what_was_above_a_limit_is_remembered_up_to_that_limit(
    tmp_path: Path, limit_bytes: int, found: set[Config]
) -> None:
    """A limit from free memory varies a little; a much higher one is another question."""
    write_limited_run(tmp_path / "log", 1000)

    assert found == configs_over_limit(read_log(tmp_path / "log").runs, KEY, SPACE, limit_bytes)


def test_other_questions_say_nothing_about_memory(tmp_path: Path) -> None:
    """Runs without a limit do not count, either."""
    write_limited_run(tmp_path / "log", 1000, {"target": "mpich"})
    write_limited_run(tmp_path / "log", None)

    assert set() == configs_over_limit(read_log(tmp_path / "log").runs, KEY, SPACE, 1000)


def test_a_suggestion_that_does_not_fit_is_moved_until_it_does() -> None:
    """The designer learns of it as a failed config, and suggests another."""
    space = fsdp_space(FsdpSettings(), reshardable=9, prefetchable=9, is_fixed=False)

    def fits(config: Config) -> bool:
        return FsdpSettings.from_config(config).kept_modules <= 3

    designer = FittingDesigner(make_designer("gp", space, 3), frozenset(), space, space.default(), fits=fits)
    trials = [measured_trial(0, space.default(), [20.0, 20.1])]
    for number in range(1, 9):
        designer.update(trials)
        config = designer.suggest().config
        trials.append(measured_trial(number, config, [20.0 - FsdpSettings.from_config(config).kept_modules]))

    assert all(fits(trial.config) for trial in trials)
    assert 3 in [FsdpSettings.from_config(trial.config).kept_modules for trial in trials]
    assert len({trial.config for trial in trials}) >= 5
