# SPDX-License-Identifier: Apache-2.0
"""The Gaussian-process designer: the tuner's own process, noisy expected improvement, and a search over legal configs.

The acquisition is taken over configs that the space accepts, never over the box around their encoding, where a special
value would be half chosen: first over configs near the best, or with a parameter drawn anew, then over ever closer
neighbours of those that promise most. Where one more sample of a measured config would do more for the final pick, that
comes instead: of ten configs that noise blurs, the luckiest is rarely the best. What comes before is the opening
(`opening`), and before that, where an earlier study is among the priors, what it has adopted, else the best of what it
measured: nothing else is as likely to be good, and nothing tells sooner whether the study still holds. While it does,
no move of the opening is made that the study has made.

Each prior is the trend of a process of its own, a flat trend is one more, and at every update the samples choose.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.gp import Observations, Points
from ringtune.tuner.policy_numbers import POLICY, Policy
from ringtune.tuner.priors.base import Experience, Prior, UncertainPrior
from ringtune.tuner.sample import Sample, Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace

from .base import Prediction, Suggestion, expected_suggestion
from .candidates import first_numbers, neighbours, redrawn
from .initial_design import opening_move

if TYPE_CHECKING:
    from ringtune.tuner.gp.process import GaussianProcess

Array = NDArray[np.float64]

FIRST = 4
"""Configs tried while no window was valid."""
RANDOM_CANDIDATES = 400
"""Where a prior says what to expect of them; without one they are rarely better than changes to what is known."""
REDRAWN_PER_BEST = 100
NEIGHBOURS_PER_BEST = 30
BEST_COUNT = 3
STEPS = (0.06, 0.02)
"""Of the rounds of ever closer neighbours, in encoded units."""
CLIMBERS = 3
DRAWS = 64
"""Of the measured configs' noise-free values."""


class GaussianProcessDesigner:
    """A Gaussian process (Matern 5/2, a length scale per coordinate, priors) with noisy expected improvement."""

    name = "gp"

    def __init__(self, space: SearchSpace, seed: int, priors: Sequence[Prior] = (), policy: Policy = POLICY) -> None:
        """Start without trials.

        Args:
            space: The legal configs.
            seed: Decides every random choice.
            priors: Expectations from before the first sample, the most trusted first.
            policy: The numbers.
        """
        self._policy = policy
        self._space = space
        self._seed = seed
        self._priors = tuple(priors)
        self._trials: tuple[Trial, ...] = ()
        self._prior: Prior | None = None
        self._process: GaussianProcess | None = None

    @property
    def prior(self) -> Prior | None:
        """The prior in use, or None where the samples speak against all."""
        return self._prior

    @property
    def adopted_before(self) -> Config | None:
        """What the earlier study among the priors has adopted, if it was tested against the baseline of now."""
        experience = self._experience
        if experience is None or not self._trials or experience.configs[0] != self._trials[0].config:
            return None
        return experience.adopted

    @property
    def _experience(self) -> Experience | None:
        return next((prior for prior in self._priors if isinstance(prior, Experience)), None)

    def update(self, trials: Sequence[Trial]) -> None:
        """Fit the process to all valid samples of all trials."""
        # scipy takes half a second to import: only when a designer works, in its own thread.
        from ringtune.tuner.gp.process import most_probable_process  # noqa: PLC0415

        if self._process is not None and tuple(trials) == self._trials:
            return
        self._trials = tuple(trials)
        samples = [sample for trial in trials for sample in trial.samples if sample.valid]
        self._prior, self._process = None, None
        if samples:
            choices = self._alternatives()
            index, self._process = most_probable_process([self._observed(samples, prior) for prior in choices])
            self._prior = choices[index]

    def _alternatives(self) -> tuple[Prior | None, ...]:
        """Return the priors that the samples choose among; None is a flat one."""
        return (*self._priors, None)

    def suggest(self) -> Suggestion:
        """Return the next move of the opening, then the config of which a sample promises most."""
        tried = {trial.config for trial in self._trials}
        if self._process is None:
            first = (config for config in first_numbers(self._space, FIRST, self._seed) if config not in tried)
            return Suggestion(next(first, self._space.default()))
        config = self._opening(tried)
        return self._with_expectation(self._most_telling(self._process) if config is None else config)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the posterior of the noise-free ln(step time), of configs not measured without their roughness.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return Prediction(*self._fitted.predict(self._points(configs, self._prior)))

    def covariance(self, configs: Sequence[Config]) -> Array:
        """Return the posterior covariances of the noise-free ln(step time), shape (m, m).

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return self._fitted.covariance(self._points(configs, self._prior))

    @property
    def _fitted(self) -> "GaussianProcess":
        if self._process is None:
            raise ValueError("no valid sample to predict from")
        return self._process

    def _opening(self, tried: set[Config]) -> Config | None:
        """Return what comes before the model may choose; None where that is over."""
        experience = self._experience
        known: set[Config] = set()
        if experience is not None:
            remembered = experience.best_config()
            if remembered not in tried:
                return remembered
            if self._is_better_than_baseline(remembered):
                known.update(experience.configs)
        return opening_move(self._space, self._best(), tried | known, is_informed=self._prior is not None)

    def _is_better_than_baseline(self, config: Config) -> bool:
        baseline, mean = self.predict([self._trials[0].config, config]).mean_log_step_ms
        return bool(mean < baseline)

    def _best(self) -> Config:
        """Return the measured config with the best posterior mean."""
        measured = self._measured()
        return measured[int(np.argmin(self.predict(measured).mean_log_step_ms))]

    def _measured(self) -> list[Config]:
        return [trial.config for trial in self._trials if trial.is_conclusive]

    def _observed(self, samples: Sequence[Sample], prior: Prior | None) -> Observations:
        y = np.array([math.log(sample.typical_ms) for sample in samples])
        return Observations(
            self._points([sample.config for sample in samples], prior),
            y,
            np.array([sample.log_variance for sample in samples]),
            self._policy.nugget_std,
        )

    def _most_telling(self, process: "GaussianProcess") -> Config:
        """Return the untried config that promises most, or a measured one of which a sample helps the pick more."""
        promising = self._most_promising(process)
        measured = self._measured()
        points = self._points(measured, self._prior)
        again, first = process.lowest_means_after(points, self._points([promising], self._prior))
        best = int(np.argmin(again))
        return measured[best] if again[best] < first else promising

    def _most_promising(self, process: "GaussianProcess") -> Config:
        rng = np.random.default_rng([self._seed, sum(len(trial.samples) for trial in self._trials)])
        measured = self._measured()
        points = self._points(measured, self._prior)
        normals = rng.standard_normal((DRAWS, len(measured)))
        candidates = self._candidates(process, measured, rng)
        gains = self._gains(process, points, candidates, normals)
        for step in STEPS:
            best = [candidates[int(index)] for index in np.argsort(-gains)[:CLIMBERS]]
            near = [
                config for centre in best for config in neighbours(self._space, centre, rng, NEIGHBOURS_PER_BEST, step)
            ]
            candidates = [*best, *self._untried(near)]
            gains = self._gains(process, points, candidates, normals)
        return candidates[int(np.argmax(gains))]

    def _gains(
        self, process: "GaussianProcess", measured: Points, candidates: Sequence[Config], normals: Array
    ) -> Array:
        return process.expected_improvement(measured, self._points(candidates, self._prior), normals)

    def _candidates(
        self, process: "GaussianProcess", measured: Sequence[Config], rng: np.random.Generator
    ) -> list[Config]:
        """Return untried configs; all those drawn where there are none (small spaces)."""
        drawn = [self._space.random(rng) for _ in range(RANDOM_CANDIDATES if self._prior else 0)]
        order = np.argsort(process.predict(self._points(measured, self._prior))[0])
        for index in order[:BEST_COUNT]:
            drawn += [redrawn(self._space, measured[int(index)], rng) for _ in range(REDRAWN_PER_BEST)]
            drawn += neighbours(self._space, measured[int(index)], rng, NEIGHBOURS_PER_BEST)
        return self._untried(drawn) or list(dict.fromkeys(drawn))

    def _untried(self, configs: Sequence[Config]) -> list[Config]:
        tried = {trial.config for trial in self._trials}
        return [config for config in dict.fromkeys(configs) if config not in tried]

    def _points(self, configs: Sequence[Config], prior: Prior | None) -> Points:
        """Return the configs encoded, with the prior's trend about that of the best measured config."""
        x = self._space.encode_all(configs)
        if prior is None:
            return Points.without_trend(x)
        measured = self._measured()
        expected = prior.log_step_ms([*measured, *configs], self._trials)
        trend = expected[len(measured) :] - expected[: len(measured)].min()
        if not isinstance(prior, UncertainPrior):
            return Points.with_trend(x, trend)
        return Points(x, trend, prior.directions(configs, self._trials))

    def _with_expectation(self, config: Config) -> Suggestion:
        return expected_suggestion(config, self._trials, self.predict([config]))
