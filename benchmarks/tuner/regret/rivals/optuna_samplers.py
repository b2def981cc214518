# SPDX-License-Identifier: Apache-2.0
"""Optuna's samplers behind the designer's interface.

A study is asked and told as in Optuna's documentation: numbers with their scale, special values as a choice of their
own, categories as they are. It gets ln(step time), the baseline's first. The pick is the best trial.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from ringtune.tuner import Config, Prediction, SearchSpace, Suggestion, Trial

from .best_sample import best_single_samples, best_single_suggestion
from .dimensions import Dimension, Range, config_at, dimensions_of, point_of


def gp_sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Return the Gaussian process, told that what it sees is noisy."""
    return optuna.samplers.GPSampler(seed=seed, deterministic_objective=False)


def tpe_sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Return the tree-structured Parzen estimator over all parameters together."""
    return optuna.samplers.TPESampler(seed=seed, multivariate=True)


def cma_es_sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Return CMA-ES; what is no number is drawn at random, as Optuna does."""
    return optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)


class OptunaDesigner:
    """A study, asked for one trial at a time."""

    name = "optuna"

    def __init__(self, space: SearchSpace, seed: int, sampler: Callable[[int], optuna.samplers.BaseSampler]) -> None:
        """Start a study.

        Args:
            space: The legal configs.
            seed: Decides every random choice.
            sampler: Makes the sampler from the seed.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = space
        self._distributions = {name: _distribution(dimension) for name, dimension in dimensions_of(space).items()}
        self._study = optuna.create_study(sampler=sampler(seed))
        self._trials: tuple[Trial, ...] = ()
        self._asked: tuple[optuna.Trial, Config, int] | None = None
        self._knows_baseline = False

    def update(self, trials: Sequence[Trial]) -> None:
        """Tell the study the baseline, once, and what became of its last trial."""
        self._trials = tuple(trials)
        if not self._knows_baseline and trials and trials[0].is_conclusive:
            self._knows_baseline = True
            value = fmean(trials[0].log_step_ms)
            parameters = point_of(self._space, trials[0].config)
            self._study.add_trial(
                optuna.trial.create_trial(params=parameters, distributions=self._distributions, value=value)
            )
        if self._asked is not None:
            asked, config, before = self._asked
            values = next((trial.log_step_ms for trial in trials if trial.config == config), ())
            if len(values) > before:
                self._study.tell(asked, values[-1])
                self._asked = None

    def suggest(self) -> Suggestion:
        """Ask for the next trial; one that was asked for and not measured has failed."""
        if self._asked is not None:
            self._study.tell(self._asked[0], state=optuna.trial.TrialState.FAIL)
        asked = self._study.ask(self._distributions)
        config = config_at(self._space, asked.params)
        samples = next((len(trial.log_step_ms) for trial in self._trials if trial.config == config), 0)
        self._asked = asked, config, samples
        return best_single_suggestion(config, self._trials)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return each config's best single sample.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return best_single_samples(configs, self._trials)


def _distribution(dimension: Dimension) -> BaseDistribution:
    if isinstance(dimension, Range):
        return FloatDistribution(dimension.low, dimension.high, log=dimension.is_log)
    return CategoricalDistribution(dimension)
