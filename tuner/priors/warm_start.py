# SPDX-License-Identifier: Apache-2.0
"""Warm start: earlier studies as priors, ranked by model, then hardware, then layout."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.designers.gp import GaussianProcessDesigner
from ringtune.tuner.logs.reader import MOST_SAMPLES, RunLog, sample_from_record
from ringtune.tuner.sample import Sample, Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace

from .base import Prior

Array = NDArray[np.float64]

MIN_CONFIGS = 4
"""Least number of currently legal configs in a usable study: fewer do not predict the others."""
MOST_STUDIES = 2
"""Largest number of studies used as priors: each costs one more fit at every update."""
ENGINE = ("target", "surface_version")
"""Fields of a key that define the meaning of a config."""
JOB = ("model", "hardware", "layout")
"""Fields of a key that determine the speed of a config."""
SAME_MODEL, SAME_HARDWARE, SAME_LAYOUT = 4, 2, 1
"""Weights in a study's relevance: the same model counts more than the same machine."""


class EarlierStudy:
    """A prior: the posterior mean of a Gaussian process fitted to an earlier study's samples.

    Far from these samples it falls back to the study's own prior: none, or the cost model of the same job.
    """

    name = "earlier_study"

    def __init__(
        self,
        space: SearchSpace,
        trials: Sequence[Trial],
        seed: int,
        models: Sequence[Prior] = (),
        adopted: Config | None = None,
    ) -> None:
        """Store the trials; the fit happens at the first prediction.

        Args:
            space: The currently legal configs.
            trials: Trials of the study with legal configs, the baseline first.
            seed: Seed of the fit.
            models: Priors of the study's own job; the evidence of its samples selects one, or none.
            adopted: Config that the study adopted, if its key was the same.
        """
        self._designer = GaussianProcessDesigner(space, seed, models)
        self._trials = tuple(trials)
        self.adopted = adopted
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


def earlier_studies(
    runs: Iterable[RunLog], key: Mapping[str, Any], space: SearchSpace, seed: int, models: Sequence[Prior] = ()
) -> tuple[EarlierStudy, ...]:
    """Return priors from earlier runs, the most relevant first.

    Args:
        runs: Finished runs, the oldest first.
        key: Key of the new study, as in `RunSettings`.
        space: The currently legal configs.
        seed: Seed of the fits.
        models: Priors of this job, which also hold for earlier jobs of the same model and layout.
    """
    numbered = ((_relevance(run, key), number, run) for number, run in enumerate(runs))
    ranked = sorted(numbered, key=lambda item: item[:2], reverse=True)
    studies = ((_trials(run, space), run) for relevance, _, run in ranked if relevance)
    usable = [(trials, run) for trials, run in studies if len(trials) >= MIN_CONFIGS]
    return tuple(
        EarlierStudy(space, trials, seed, models if _is_same_job(run, key) else (), _adopted(run, key, trials))
        for trials, run in usable[:MOST_STUDIES]
    )


def _is_same_job(run: RunLog, key: Mapping[str, Any]) -> bool:
    """Return whether a run reduced the same gradients in the same layout of ranks and hosts."""
    return run.run is not None and all(run.run.key.get(name) == key.get(name) for name in ("model", "layout"))


def _adopted(run: RunLog, key: Mapping[str, Any], trials: Sequence[Trial]) -> Config | None:
    """Return the config that a run adopted; None if it kept its baseline, or its key differs."""
    if run.run is None or run.result is None or not run.result.adopted:
        return None
    adopted = Config(run.result.config)
    is_same_question = all(run.run.key.get(name) == key.get(name) for name in (*ENGINE, *JOB))
    return adopted if is_same_question and adopted in (trial.config for trial in trials) else None


def _relevance(run: RunLog, key: Mapping[str, Any]) -> int:
    """Return the relevance of a run for a key; 0 if it is unusable."""
    if run.run is None:
        return 0
    earlier = run.run.key
    if any(earlier.get(name) != key.get(name) for name in ENGINE):
        return 0
    is_same = {name: earlier.get(name) == key.get(name) for name in JOB}
    if not (is_same["model"] or is_same["hardware"]):
        return 0
    return SAME_MODEL * is_same["model"] + SAME_HARDWARE * is_same["hardware"] + SAME_LAYOUT * is_same["layout"]


def _trials(run: RunLog, space: SearchSpace) -> list[Trial]:
    """Return the run's usable samples as one trial per config, without configs that are no longer legal."""
    by_config: dict[Config, list[Sample]] = {}
    for record in run.samples:
        sample = sample_from_record(record)
        if sample.valid and sample.step_times.is_usable and space.contains(sample.config):
            by_config.setdefault(sample.config, []).append(sample)
    return [
        Trial(number, config, tuple(samples[-MOST_SAMPLES:]))
        for number, (config, samples) in enumerate(by_config.items())
    ]
