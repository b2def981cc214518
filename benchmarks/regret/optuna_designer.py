# SPDX-License-Identifier: Apache-2.0
"""Optuna's samplers behind the designer's interface, for this comparison alone.

A study is asked and told as its documentation says: numbers with their scale, special values as a choice of their own,
categories as they are. It is told ln(step time), the baseline's first. What counts in the end is the best trial.
"""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from ringtune.tuner import BooleanParameter, CategoryParameter, Config, Prediction, SearchSpace, Suggestion, Trial
from ringtune.tuner.config import Value
from ringtune.tuner.designers.base import best_single_samples, best_single_suggestion
from ringtune.tuner.kinds import Parameter

NUMBER = "a number"
"""The choice beside a number's special values."""


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
        self._distributions = {
            name: distribution for parameter in space.free for name, distribution in _distributions(parameter).items()
        }
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
            parameters = self._parameters(trials[0].config)
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
        config = self._config(asked.params)
        samples = next((len(trial.log_step_ms) for trial in self._trials if trial.config == config), 0)
        self._asked = asked, config, samples
        return best_single_suggestion(config, self._trials)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return each config's best single sample.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return best_single_samples(configs, self._trials)

    def _config(self, parameters: dict[str, Any]) -> Config:
        values = {parameter.name: _value(parameter, parameters) for parameter in self._space.free}
        return self._space.default().replace(values)

    def _parameters(self, config: Config) -> dict[str, Any]:
        """Return a config as a trial's parameters; a number that is special says nothing about the number."""
        found: dict[str, Any] = {}
        for parameter in self._space.free:
            value = config[parameter.name]
            if isinstance(parameter, BooleanParameter | CategoryParameter):
                found[parameter.name] = value
                continue
            if parameter.special:
                found[f"{parameter.name} is"] = str(value) if value in parameter.special else NUMBER
            found[parameter.name] = parameter.low if value in parameter.special else float(value)
        return found


def _distributions(parameter: Parameter) -> dict[str, BaseDistribution]:
    if isinstance(parameter, BooleanParameter):
        return {parameter.name: CategoricalDistribution([False, True])}
    if isinstance(parameter, CategoryParameter):
        return {parameter.name: CategoricalDistribution(parameter.choices)}
    number = FloatDistribution(parameter.low, parameter.high, log=parameter.scale != "linear")
    if not parameter.special:
        return {parameter.name: number}
    choices = [NUMBER, *(str(special) for special in parameter.special)]
    return {f"{parameter.name} is": CategoricalDistribution(choices), parameter.name: number}


def _value(parameter: Parameter, parameters: dict[str, Any]) -> Value:
    value: Value = parameters[parameter.name]
    if isinstance(parameter, BooleanParameter | CategoryParameter):
        return value
    which = parameters.get(f"{parameter.name} is", NUMBER)
    special = {str(special): special for special in parameter.special}
    return special[which] if which in special else parameter.nearest(float(value))
