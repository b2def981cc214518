# SPDX-License-Identifier: Apache-2.0
"""Configs that fail: told to the designer as slow ones, and found again in the log of an unfinished run."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ringtune.tuner import Config, Phase, Sample, StepTimes, Trial, read_log
from ringtune.tuner.designers import Designer, DesignerWrapper
from ringtune.tuner.logs.reader import RunLog


class FailureAwareDesigner(DesignerWrapper):
    """Tells a designer of failed trials, which designers otherwise leave out, so that it keeps away from them.

    A failed config is told to be as slow as the slowest that did not fail: a worse time would bend the model around it.
    The log keeps the truth, that there is no time; only the designer is told one.
    """

    def __init__(self, designer: Designer, failed: AbstractSet[Config] = frozenset()) -> None:
        """Wrap `designer`; `failed` are configs that failed in a run that is resumed."""
        super().__init__(designer)
        self._failed = sorted(failed, key=str)

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials, failed ones as slow ones."""
        times = [time for trial in trials for time in trial.log_step_ms]
        slowest_ms = math.exp(max(times)) if times else None
        told = [_with_time(trial, slowest_ms) for trial in trials]
        if slowest_ms is not None:
            known = {trial.config for trial in trials}
            unknown = [config for config in self._failed if config not in known]
            told += [_slow_trial(len(trials) + index, config, slowest_ms) for index, config in enumerate(unknown)]
        self.designer.update(told)


def failed_configs(
    path: str | os.PathLike[str], key: Mapping[str, Any], space: Mapping[str, Any], seed: int
) -> frozenset[Config]:
    """Return the configs that failed in the last runs of a log, if these asked the same and are unfinished.

    Args:
        path: The log; a file that does not exist has no run.
        key: The study's key, as in `RunSettings`.
        space: `SearchSpace.to_json()`.
        seed: The seed of the run.
    """
    question = (json.loads(json.dumps(dict(key))), json.loads(json.dumps(dict(space))), seed)
    samples = [sample for log in _unfinished(path, question) for sample in log.samples if sample.phase == Phase.SEARCH]
    measured = {Config(sample.config) for sample in samples if sample.valid}
    return frozenset(Config(sample.config) for sample in samples) - measured


def _unfinished(path: str | os.PathLike[str], question: tuple[object, object, int]) -> Iterator[RunLog]:
    """Yield the last runs, as far back as they are unfinished and ask the question (key, space, seed)."""
    try:
        runs = read_log(path).runs
    except OSError:
        return
    for log in reversed(runs):
        if log.result is not None or log.run is None:
            return
        if (log.run.key, log.run.search_space, log.run.seed) != question:
            return
        yield log


def _with_time(trial: Trial, slowest_ms: float | None) -> Trial:
    if slowest_ms is None or trial.is_conclusive or not trial.samples:
        return trial
    return _slow_trial(trial.trial_id, trial.config, slowest_ms)


def _slow_trial(trial_id: int, config: Config, slowest_ms: float) -> Trial:
    """Return a trial that never was, for designers alone."""
    times = StepTimes(slowest_ms, 0.0, slowest_ms)
    return Trial(trial_id, config, (Sample(trial_id, config, Phase.SEARCH, 0, 1e3 / slowest_ms, times, 1),))
