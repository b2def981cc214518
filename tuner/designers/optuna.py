# SPDX-License-Identifier: Apache-2.0
"""Optuna's samplers as designers, `optuna:tpe` and others: a study by ask and tell over ln(step time).

Every update begins a study and replays all trials in it, failed ones as failed: what is suggested depends on the seed
and the trials alone. A suggestion that was tried before is asked for again, a few times. Predictions are shrunk means.
"""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtune.errors import ConfigError
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace

from .base import Prediction, Suggestion
from .optuna_axes import axes_of
from .shrinkage import shrunk_means
from .single_threaded import single_threaded

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

ASKS = 20
"""Largest number of questions for an untried config; then of random draws; then a repetition is accepted."""
SEEDS = 2**31
"""Number of seeds that Optuna takes."""
MODULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "tpe": ("optuna",),
        "cmaes": ("optuna", "cmaes"),
        "gp": ("optuna", "torch"),
        "random": ("optuna",),
    }
)
"""Modules that a sampler needs, by the name of the sampler."""


class OptunaDesigner:
    """A sampler of Optuna behind the designer's interface."""

    def __init__(self, sampler: str, space: SearchSpace, seed: int) -> None:
        """Start without trials.

        Args:
            sampler: A name in `MODULES`.
            space: The legal configs.
            seed: Decides every random choice.

        Raises:
            ConfigError: If a module of the sampler is not installed.
        """
        self.name = f"optuna:{sampler}"
        missing = [module for module in MODULES[sampler] if importlib.util.find_spec(module) is None]
        if missing:
            wanted = "ringtune[optuna,torch]" if "torch" in missing else "ringtune[optuna]"
            raise ConfigError(
                f"the designer {self.name} needs {' and '.join(missing)}, not installed here; pip install '{wanted}'"
            )
        self._sampler = sampler
        self._space = space
        self._seed = seed
        self._axes = axes_of(space)
        self._trials: tuple[Trial, ...] = ()
        self._study: Study | None = None

    def update(self, trials: Sequence[Trial]) -> None:
        """Replay all trials in a new study."""
        import optuna  # noqa: PLC0415  (takes seconds: only when a designer works, in its own thread)

        self._trials = tuple(trials)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with single_threaded():
            self._study = optuna.create_study(sampler=self._new_sampler())
            distributions = self._distributions()
            for trial in trials:
                self._replay(trial, distributions)

    def suggest(self) -> Suggestion:
        """Return the config that the sampler asks for, an untried one if possible."""
        if self._study is None:
            self.update(self._trials)
        tried = {trial.config for trial in self._trials}
        rng = np.random.default_rng(self._numbers())
        sources: tuple[Callable[[], Config], ...] = (self._asked, partial(self._space.random, rng))
        with single_threaded():
            for draw in sources:
                for _ in range(ASKS):
                    config = draw()
                    if config not in tried:
                        return Suggestion(config)
        return Suggestion(config)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the shrunk means of the configs.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return shrunk_means(configs, self._trials)

    def _numbers(self) -> list[int]:
        """Return what the random numbers of a suggestion depend on."""
        return [self._seed, len(self._trials), sum(len(trial.samples) for trial in self._trials)]

    def _new_sampler(self) -> "BaseSampler":
        """Return a sampler at the beginning of its random numbers.

        CMA-ES has its state in the trials that it was asked for, so that it is asked again for all: the same numbers
        come again. Others look at the trials alone, and get numbers of their own for every suggestion.
        """
        from optuna import samplers  # noqa: PLC0415  (as above)

        first, seed = (int(np.random.default_rng(numbers).integers(SEEDS)) for numbers in (self._seed, self._numbers()))
        made: Mapping[str, Callable[[], BaseSampler]] = {
            "tpe": lambda: samplers.TPESampler(seed=seed, multivariate=True),
            "cmaes": lambda: samplers.CmaEsSampler(
                seed=first, independent_sampler=samplers.RandomSampler(seed), warn_independent_sampling=False
            ),
            "gp": lambda: samplers.GPSampler(seed=seed, deterministic_objective=False),
            "random": lambda: samplers.RandomSampler(seed=seed),
        }
        return made[self._sampler]()

    @property
    def _is_asked_again(self) -> bool:
        return self._sampler == "cmaes"

    def _replay(self, trial: Trial, distributions: "dict[str, BaseDistribution]") -> None:
        """Tell the study of a trial; one that is neither measured nor failed says nothing."""
        from optuna.trial import TrialState, create_trial  # noqa: PLC0415  (as above)

        if self._study is None or not (trial.is_conclusive or trial.has_failed):
            return
        params = {name: at for axis in self._axes for name, at in axis.params(trial.config).items()}
        value = fmean(trial.log_step_ms) if trial.is_conclusive else None
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
        notes = self._notes_of_asking(distributions) if self._is_asked_again else {}
        told = create_trial(state=state, value=value, params=params, distributions=distributions, system_attrs=notes)
        self._study.add_trial(told)

    def _notes_of_asking(self, distributions: "dict[str, BaseDistribution]") -> dict[str, Any]:
        """Return the state that the sampler writes to a trial that it is asked for; that trial itself is given up."""
        from optuna.trial import TrialState  # noqa: PLC0415  (as above)

        if self._study is None:
            raise AssertionError("a question before the first update")
        asked = self._study.ask(distributions)
        self._study.tell(asked, state=TrialState.FAIL)
        return dict(self._study.get_trials(deepcopy=False)[asked.number].system_attrs)

    def _asked(self) -> Config:
        if self._study is None:
            raise AssertionError("a question before the first update")
        params = self._study.ask(self._distributions()).params
        values = {axis.parameter.name: axis.value(params) for axis in self._axes}
        return self._space.default().replace(values)

    def _distributions(self) -> "dict[str, BaseDistribution]":
        return {name: distribution for axis in self._axes for name, distribution in axis.distributions.items()}
