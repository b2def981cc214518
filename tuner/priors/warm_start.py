# SPDX-License-Identifier: Apache-2.0
"""Warm start: earlier studies as priors, the nearest first (`relevance`).

A finished run is a study of its own. The unfinished runs of one question are one study together (`pooling`). Their
samples join those of a job that asks the same question, so that jobs too short for a decision come to one together.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtune.system.counts import counted
from ringtune.tuner.designers.gp import GaussianProcessDesigner
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace

from .base import Prior
from .pooling import MOST_RUNS, pooled_trials, runs_by_question, runs_like, usable_trials
from .relevance import StudyKey, distance

Array = NDArray[np.float64]

MIN_CONFIGS = 4
"""Least number of currently legal configs in a usable study: fewer do not predict the others."""
MIN_CONTINUED_CONFIGS = 2
"""The same for unfinished runs of the same question: the baseline and one other config, where the search goes on."""
ALLOWED_DIFFERENCE = 0.05
"""Difference between a job and earlier runs that is noise, ln(step time): baselines and load scatter by as much."""
ALLOWED_SHARE = 0.25
"""The same as a share of a config's effect: under other load the engine's part of the step is another."""
ALLOWED_STDS = 3.0
"""The same in standard deviations of the job's own window."""
MOST_STUDIES = 2
"""Largest number of studies used as priors: each costs one more fit at every update."""


class EarlierStudy:
    """A prior: the posterior mean of a Gaussian process fitted to an earlier study's samples.

    Far from these samples it falls back to the study's own prior: none, or the cost model of the same job.

    Attributes:
        adopted: Config that the study adopted; None if it kept its baseline, or had another key.
        origin: Name of its runs for people, such as "a finished run with 2 ranks"; empty for the job's own.
    """

    name = "earlier_study"

    def __init__(
        self,
        space: SearchSpace,
        trials: Sequence[Trial],
        seed: int,
        models: Sequence[Prior] = (),
        adopted: Config | None = None,
        *,
        origin: str = "",
    ) -> None:
        """Store the trials; the fit happens at the first prediction.

        Args:
            space: The currently legal configs.
            trials: Trials of the study with legal configs, the baseline first.
            seed: Seed of the fit.
            models: Priors of the study's own job; the evidence of its samples selects one, or none.
            adopted: See the attribute.
            origin: See the attribute.
        """
        self._designer = GaussianProcessDesigner(space, seed, models)
        self._trials = tuple(trials)
        self.adopted = adopted
        self.origin = origin
        self._is_fitted = False

    @property
    def configs(self) -> tuple[Config, ...]:
        """The configs that the study measured."""
        return tuple(trial.config for trial in self._trials)

    def log_step_ms(self, configs: Sequence[Config], trials: Sequence[Trial]) -> Array:
        """Return the earlier study's posterior means of ln(step time in ms), shape (m,)."""
        del trials
        if not self._is_fitted:
            self._designer.update(self._trials)
            self._is_fitted = True
        return self._designer.predict(configs).mean_log_step_ms

    def best_config(self) -> Config:
        """Return the config that the study adopted, or else the measured config with the lowest posterior mean."""
        if self.adopted is not None:
            return self.adopted
        return self.configs[int(np.argmin(self.log_step_ms(self.configs, ())))]


class ContinuedRuns(EarlierStudy):
    """The unfinished runs of the question that is asked again: their samples join those of the job (`UnfinishedRuns`).

    Runs whose baseline had another step time are left out: their batch, or their load, was another. All are left out
    once a config that both have measured differs by too much.
    """

    name = "unfinished_runs"

    def __init__(self, space: SearchSpace, runs: Sequence[RunLog], seed: int, origin: str) -> None:
        """Store the runs.

        Args:
            space: The currently legal configs.
            runs: Unfinished runs of one key and one baseline, the oldest first.
            seed: Seed of a fit.
            origin: Name for people, as in `EarlierStudy`.
        """
        super().__init__(space, pooled_trials(runs, space), seed, origin=origin)
        self._space = space
        self._runs = tuple(runs)

    def trials_beside(self, trials: Sequence[Trial]) -> tuple[Trial, ...]:
        """Return the trials scaled to the job's baseline; see `UnfinishedRuns`."""
        if not trials or not trials[0].is_conclusive or trials[0].config != self.configs[0]:
            return ()
        baseline_log_ms = median(trials[0].log_step_ms)
        baseline_ms = math.exp(baseline_log_ms)
        earlier = tuple(pooled_trials(runs_like(self._runs, self._space, baseline_ms), self._space, baseline_ms))
        if len(earlier) < MIN_CONTINUED_CONFIGS:
            return ()
        own = [trial for trial in trials[1:] if trial.is_conclusive]
        return earlier if self._do_agree(own, earlier, baseline_log_ms) else ()

    def _do_agree(self, own: Sequence[Trial], earlier: Sequence[Trial], baseline_log_ms: float) -> bool:
        """Return whether every config that both have measured has about the same step times in both."""
        by_config = {trial.config: trial for trial in earlier}
        shared = (trial for trial in own if trial.config in by_config)
        return all(agrees(trial, by_config[trial.config], baseline_log_ms) for trial in shared)


def agrees(own: Trial, earlier: Trial, baseline_log_ms: float) -> bool:
    """Return whether a config's step times are those of earlier runs, as far as its noise and their effect allow.

    Args:
        own: The job's samples of the config.
        earlier: Samples of earlier runs in step times of this job.
        baseline_log_ms: ln(step time in ms) of the baseline.
    """
    expected = median(earlier.log_step_ms)
    allowed = ALLOWED_DIFFERENCE + ALLOWED_SHARE * abs(expected - baseline_log_ms)
    allowed += ALLOWED_STDS * math.sqrt(min(sample.log_variance for sample in own.samples if sample.valid))
    return abs(median(own.log_step_ms) - expected) <= allowed


@dataclass(frozen=True)
class _Evidence:
    """Samples that make one study.

    Attributes:
        run: The run; of several the newest.
        number: Its place among all runs, the oldest being 0.
        trials: Its usable samples, or those of all of them.
        unfinished: Runs without a decision that they are from, the oldest first; none for a finished run.
    """

    run: RunLog
    number: int
    trials: Sequence[Trial]
    unfinished: Sequence[RunLog] = ()

    @property
    def is_finished(self) -> bool:
        """True for a finished run."""
        return not self.unfinished

    @property
    def key(self) -> StudyKey:
        """Key of the study."""
        return _key_of(self.run)

    def is_continued_by(self, asked: StudyKey) -> bool:
        """Return whether the search of a study without a decision goes on in a new run of the same question."""
        return not self.is_finished and self.key == asked

    def nearness(self, asked: StudyKey) -> tuple[float, bool, bool, int]:
        """Return what orders the studies, the nearest last."""
        return -distance(asked, self.key), self.key == asked, self.is_finished, self.number


def earlier_studies(
    runs: Iterable[RunLog], key: Mapping[str, Any], space: SearchSpace, seed: int, models: Sequence[Prior] = ()
) -> tuple[EarlierStudy, ...]:
    """Return priors from earlier runs, the most relevant first; finished runs go before unfinished ones, then by age.

    Args:
        runs: Earlier runs, the oldest first; those without a result are unfinished.
        key: Key of the new study, as in `RunSettings`.
        space: The currently legal configs.
        seed: Seed of the fits.
        models: Priors of this job, which also hold for earlier jobs of the same model and layout.
    """
    asked = StudyKey.from_json(key)
    numbered = [(number, run) for number, run in enumerate(runs) if math.isfinite(distance(asked, _key_of(run)))]
    usable = [
        item
        for item in _evidence(numbered, space)
        if len(item.trials) >= (MIN_CONTINUED_CONFIGS if item.is_continued_by(asked) else MIN_CONFIGS)
    ]
    usable.sort(key=lambda item: item.nearness(asked), reverse=True)
    return tuple(_study(item, asked, space, seed, models) for item in usable[:MOST_STUDIES])


def _study(item: _Evidence, asked: StudyKey, space: SearchSpace, seed: int, models: Sequence[Prior]) -> EarlierStudy:
    """Return the prior that evidence makes."""
    if item.is_continued_by(asked):
        return ContinuedRuns(space, item.unfinished, seed, _origin(item, asked))
    own_models = models if (item.key.model, item.key.layout) == (asked.model, asked.layout) else ()
    adopted = _adopted(item.run, item.trials) if item.key == asked else None
    return EarlierStudy(space, item.trials, seed, own_models, adopted, origin=_origin(item, asked))


def _evidence(numbered: Sequence[tuple[int, RunLog]], space: SearchSpace) -> Iterator[_Evidence]:
    """Yield the evidence of each finished run, and of all unfinished runs of each question."""
    for number, run in numbered:
        if run.result is not None:
            yield _Evidence(run, number, usable_trials(run, space))
    for group in runs_by_question([(number, run) for number, run in numbered if run.result is None]):
        number, newest = group[-1]
        pooled = [run for _, run in group[-MOST_RUNS:]]
        yield _Evidence(newest, number, pooled_trials(pooled, space), pooled)


def adopted_config(
    runs: Iterable[RunLog], key: Mapping[str, Any], space: SearchSpace, baseline: Config
) -> Config | None:
    """Return the config that the newest finished run of the same question has adopted; None if it kept its baseline.

    Args:
        runs: Earlier runs, the oldest first.
        key: Key of the job's study.
        space: The currently legal configs.
        baseline: Config that the job runs without tuning.
    """
    asked = [
        run.result
        for run in runs
        if run.run is not None and has_key(run, key) and run.run.baseline == baseline.to_json()
    ]
    newest = next((result for result in reversed(asked) if result is not None), None)
    if newest is None or not newest.adopted or not space.contains(Config(newest.config)):
        return None
    return Config(newest.config)


def _origin(item: _Evidence, asked: StudyKey) -> str:
    """Return the name of a study's runs for people: their number, and their differences to the new study."""
    earlier, count = item.key, len(item.unfinished)
    name = "a finished run" if count == 0 else "an unfinished run" if count == 1 else f"{count} unfinished runs"
    if earlier.layout != asked.layout:
        name += f" with {counted(earlier.world_size, 'rank')} in place of {asked.world_size}"
    others = [f"another {field}" for field in ("model", "hardware") if vars(earlier)[field] != vars(asked)[field]]
    return f"{name} of {' and '.join(others)}" if others else name


def has_key(run: RunLog, key: Mapping[str, Any]) -> bool:
    """Return whether a run asked the question of a key."""
    return run.run is not None and _key_of(run) == StudyKey.from_json(key)


def _key_of(run: RunLog) -> StudyKey:
    """Return the key of a run; one of no job for a run without a beginning."""
    return StudyKey.from_json({} if run.run is None else run.run.key)


def _adopted(run: RunLog, trials: Sequence[Trial]) -> Config | None:
    """Return the config that a run of the same question adopted; None if it kept its baseline."""
    if run.result is None or not run.result.adopted:
        return None
    adopted = Config(run.result.config)
    return adopted if adopted in (trial.config for trial in trials) else None
