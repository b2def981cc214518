# SPDX-License-Identifier: Apache-2.0
"""Earlier studies as priors: the same question first, then the same model elsewhere, then another model here."""

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
"""An earlier study with fewer configs that are legal now says nothing about the others."""
MOST_STUDIES = 2
"""Each is a fit more at every update."""
ENGINE = ("target", "surface_version")
JOB = ("model", "hardware", "layout")
"""Of a key, what the same configs mean the same for; and what decides how fast they are."""
SAME_MODEL, SAME_HARDWARE, SAME_LAYOUT = 4, 2, 1
"""What makes a study relevant: what it ran counts more than where."""


class EarlierStudy:
    """A prior: what a Gaussian process makes of an earlier study's samples.

    Far from them it expects what was known beforehand: nothing, or what a model of the same job does.
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
        """Take the trials of the study, whose configs are legal in `space`; they are fitted at the first question.

        Args:
            space: What is legal now.
            trials: Of the study, the baseline first.
            seed: Decides the fit.
            models: What was known of the study's job beforehand; used, as in any search, while its samples agree.
            adopted: Which of their configs the study has adopted, if it asked the same question.
        """
        self._designer = GaussianProcessDesigner(space, seed, models)
        self._trials = tuple(trials)
        self.adopted = adopted
        self._is_fitted = False

    @property
    def configs(self) -> tuple[Config, ...]:
        """What the study has measured."""
        return tuple(trial.config for trial in self._trials)

    def log_step_ms(self, configs: Sequence[Config], trials: Sequence[Trial]) -> Array:
        """Return the expected ln(step time in ms) of configs, shape (m,), as the earlier study had it."""
        del trials
        if not self._is_fitted:
            self._designer.update(self._trials)
            self._is_fitted = True
        return self._designer.predict(configs).mean_log_step_ms

    def best_config(self) -> Config:
        """Return what the study has adopted after its test, else the measured config with the best posterior mean."""
        if self.adopted is not None:
            return self.adopted
        return self.configs[int(np.argmin(self.log_step_ms(self.configs, ())))]


def earlier_studies(
    runs: Iterable[RunLog], key: Mapping[str, Any], space: SearchSpace, seed: int, models: Sequence[Prior] = ()
) -> tuple[EarlierStudy, ...]:
    """Return priors from earlier runs, the most relevant first.

    Args:
        runs: Finished runs, the oldest first.
        key: The study's key, as in `RunSettings`.
        space: What is legal now.
        seed: Decides the fits.
        models: What is known of this job beforehand, and so of earlier ones of the same model and layout.
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
    """Tell whether a run reduced the same gradients among as many ranks on as many hosts."""
    return run.run is not None and all(run.run.key.get(name) == key.get(name) for name in ("model", "layout"))


def _adopted(run: RunLog, key: Mapping[str, Any], trials: Sequence[Trial]) -> Config | None:
    """Return which config of a run's trials it has adopted; None where it kept its baseline, or asked another key."""
    if run.run is None or run.result is None or not run.result.adopted:
        return None
    adopted = Config(run.result.config)
    is_same_question = all(run.run.key.get(name) == key.get(name) for name in (*ENGINE, *JOB))
    return adopted if is_same_question and adopted in (trial.config for trial in trials) else None


def _relevance(run: RunLog, key: Mapping[str, Any]) -> int:
    """Return how much a run says about a key; 0 where it says nothing."""
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
    """Return the run's usable samples by config, those of configs that are not legal now left out."""
    by_config: dict[Config, list[Sample]] = {}
    for record in run.samples:
        sample = sample_from_record(record)
        if sample.valid and sample.step_times.is_usable and space.contains(sample.config):
            by_config.setdefault(sample.config, []).append(sample)
    return [
        Trial(number, config, tuple(samples[-MOST_SAMPLES:]))
        for number, (config, samples) in enumerate(by_config.items())
    ]
