# SPDX-License-Identifier: Apache-2.0
"""The Gaussian-process designer: the tuner's own process, noisy expected improvement, and a search over legal configs.

The acquisition function is evaluated at legal configs only: in the box around their encoding a special value could be
"half chosen". The first candidates are neighbours of the best configs, the best configs with a parameter redrawn, and
random configs. Each later round draws closer neighbours of the candidates with the largest expected improvement.

Where trials are cheap, every third suggestion settles a knob that was not varied near the best config
(`single_changes`): it is the change with the largest expected improvement.

Once configs have failed, expected improvement counts as much as the probability that a candidate works (`Feasibility`).

The designer repeats a measured config if its next sample has the larger knowledge gradient: among many noisy configs,
the one with the best sample is rarely the best (winner's curse).

Two phases come before the model chooses. With an earlier study among the priors, the first suggestion is the warm
start: the config that the study adopted, or else its best one. It is the most promising config, and it shows at once
whether the study still holds. The initial design (`initial_design`) follows. It skips changes that the study has
measured while the warm start is better than the baseline.

The unfinished runs of the same question are no prior mean: their samples, in ratios to the baseline, are observations
beside the job's own (`UnfinishedRuns`). A job that is too short for a decision therefore goes on where others stopped.

A process is fitted with each prior as its prior mean, and one with a flat prior mean. At every update the evidence
selects one of them.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.gp import Observations, Points
from ringtune.tuner.priors.base import Prior, PriorStudy, UncertainPrior, UnfinishedRuns
from ringtune.tuner.sample import Sample, Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace

from .base import Prediction, Suggestion, expected_suggestion
from .candidates import RandomPool, first_numbers, neighbours, redrawn
from .initial_design import filling_config, next_initial_config
from .single_changes import single_changes

if TYPE_CHECKING:
    from ringtune.tuner.gp.feasibility import Feasibility
    from ringtune.tuner.gp.process import GaussianProcess

Array = NDArray[np.float64]

FIRST = 4
"""Number of space-filling configs besides the defaults, tried while no window was valid."""
RANDOM_PARTS, CHEAP_PARTS = 2, 7
"""Parts of the pool of random candidates, with a prior in use and where a bad trial is cheap; others have none."""
ENCODED = 4096
"""Number of encodings that are kept."""
REDRAWN_PER_BEST = 100
"""Number of candidates with a redrawn parameter, for each of the best measured configs."""
NEIGHBOURS_PER_BEST = 30
"""Number of neighbours around each of the best measured configs, or best candidates."""
BEST_COUNT = 3
"""Number of best measured configs around which the first candidates are drawn."""
STEPS = (0.06, 0.02)
"""Standard deviation of a neighbour's steps in each round of refinement, encoded units."""
CLIMBERS = 3
"""Number of best candidates that a round refines."""
SETTLING_TURNS = 3
"""Number of suggestions of which one changes a knob that was not varied near the best config."""
LEAST_ADVANTAGE = 1e-6
"""Least advantage of a repeat, ln(step time): where nothing is worth much, a new config is tried."""
DRAWS = 64
"""Number of draws of the measured configs' noise-free values, over which expected improvement is averaged."""


class GaussianProcessDesigner:
    """A Gaussian process (Matern 5/2, a length scale per coordinate, priors) with noisy expected improvement."""

    name = "gp"

    def __init__(
        self, space: SearchSpace, seed: int, priors: Sequence[Prior] = (), *, are_trials_cheap: bool = False
    ) -> None:
        """Start without trials.

        Args:
            space: The legal configs.
            seed: Seed of every random choice.
            priors: Expected step times before the first sample, the most trusted prior first.
            are_trials_cheap: Whether a bad trial costs no more than a good one; then the initial design fills the
                space, and random configs are candidates, too.
        """
        self._are_trials_cheap = are_trials_cheap
        self._space = space
        self._seed = seed
        self._pool = RandomPool(space, seed, CHEAP_PARTS if are_trials_cheap else RANDOM_PARTS)
        self._encoded = lru_cache(maxsize=ENCODED)(space.encode)
        self._priors = tuple(prior for prior in priors if not isinstance(prior, UnfinishedRuns))
        self._unfinished = next((prior for prior in priors if isinstance(prior, UnfinishedRuns)), None)
        self._earlier: tuple[Trial, ...] = ()
        self._trials: tuple[Trial, ...] = ()
        self._prior: Prior | None = None
        self._process: GaussianProcess | None = None
        self._feasibility: Feasibility | None = None

    @property
    def prior(self) -> Prior | None:
        """The prior in use, or None if the flat prior mean has the greatest evidence."""
        return self._prior

    @property
    def adopted_before(self) -> Config | None:
        """The config that the earlier study among the priors adopted, if its baseline was the current one."""
        study = self._study
        if study is None or not self._trials or study.configs[0] != self._trials[0].config:
            return None
        return study.adopted

    @property
    def _study(self) -> PriorStudy | None:
        return next((prior for prior in self._priors if isinstance(prior, PriorStudy)), None)

    def update(self, trials: Sequence[Trial]) -> None:
        """Fit the process to all valid samples of all trials, and learn which configs fail."""
        # Importing scipy takes half a second; this defers it to the designer's own thread.
        from ringtune.tuner.gp.process import most_probable_process  # noqa: PLC0415

        if self._process is not None and tuple(trials) == self._trials:
            return
        self._trials = tuple(trials)
        self._prior, self._process, self._feasibility = None, None, None
        self._earlier = () if self._unfinished is None else self._unfinished.trials_beside(self._trials)
        if any(trial.is_conclusive for trial in trials):
            known = (*trials, *self._earlier)
            samples = [sample for trial in known for sample in trial.samples if sample.valid]
            choices = self._alternatives()
            index, self._process = most_probable_process([self._observed(samples, prior) for prior in choices])
            self._prior = choices[index]
            self._feasibility = self._learned_feasibility()

    def _learned_feasibility(self) -> "Feasibility | None":
        """Return the model of the configs that fail; None if none has."""
        from ringtune.tuner.gp.feasibility import Feasibility  # noqa: PLC0415  (as above)

        failed = [trial.config for trial in self._trials if trial.has_failed]
        return Feasibility(*map(self._space.encode_all, (self._measured(), failed))) if failed else None

    def _alternatives(self) -> tuple[Prior | None, ...]:
        """Return the priors that the samples choose among; None is a flat one."""
        return (*self._priors, None)

    def suggest(self) -> Suggestion:
        """Return the next config of the initial design, then the config whose next sample is worth the most."""
        tried = {trial.config for trial in self._trials}
        if self._process is None:
            first = (config for config in first_numbers(self._space, FIRST, self._seed) if config not in tried)
            return Suggestion(next(first, self._space.default()))
        config = self._initial_config(tried)
        if config is None:
            config = self._most_valuable(self._process)
        return expected_suggestion(config, self._trials, self.predict([config]))

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the posterior of the noise-free ln(step time).

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

    def _initial_config(self, tried: set[Config]) -> Config | None:
        """Return the warm start, then the next config of the initial design; None after its end."""
        study = self._study
        known: set[Config] = set()
        if study is not None:
            remembered = study.best_config()
            if remembered not in tried:
                return remembered
            baseline, mean = self.predict([self._trials[0].config, remembered]).mean_log_step_ms
            if mean < baseline:
                known.update(study.configs)
        if self._earlier:
            earlier = [trial.config for trial in self._earlier[1:]]
            if not tried.intersection(earlier):
                return self._best_of(earlier)  # whether it is better or not, it shows whether the runs still hold
            known.update(earlier)
        if self._is_free_to_explore:
            return filling_config(self._space, tried, self._seed)
        best = self._best_of(self._measured())
        return next_initial_config(self._space, best, tried | known, is_informed=self._prior is not None)

    def _best_of(self, configs: Sequence[Config]) -> Config:
        """Return the config with the lowest posterior mean."""
        return configs[int(np.argmin(self.predict(configs).mean_log_step_ms))]

    def _measured(self) -> list[Config]:
        return [trial.config for trial in self._trials if trial.is_conclusive]

    def _observed(self, samples: Sequence[Sample], prior: Prior | None) -> Observations:
        y = np.array([math.log(sample.typical_ms) for sample in samples])
        return Observations(
            self._points([sample.config for sample in samples], prior),
            y,
            np.array([sample.log_variance for sample in samples]),
        )

    def _most_valuable(self, process: "GaussianProcess") -> Config:
        """Return the most promising untried config, or a measured one whose repeat has a larger knowledge gradient."""
        if (settling := self._settling_config(process)) is not None:
            return settling
        promising = self._most_promising(process)
        measured = self._measured()
        points = self._points(measured, self._prior)
        again, first = process.lowest_means_after(points, self._points([promising], self._prior))
        best = int(np.argmin(again))
        return measured[best] if again[best] < first - LEAST_ADVANTAGE else promising

    @property
    def _is_free_to_explore(self) -> bool:
        return self._are_trials_cheap and self._prior is None

    def _settling_config(self, process: "GaussianProcess") -> Config | None:
        """Return the best change of a knob that was not varied near the best config; None if there is none."""
        if not self._is_free_to_explore or len(self._trials) % SETTLING_TURNS:
            return None
        best = self._best_of(self._measured())
        candidates = single_changes(self._space, best, {trial.config for trial in self._trials})
        if not candidates:
            return None
        return candidates[int(np.argmax(self._valuation(process, self._new_rng())(candidates)))]

    def _most_promising(self, process: "GaussianProcess") -> Config:
        """Return the untried config with the largest noisy expected improvement."""
        rng = self._new_rng()
        value = self._valuation(process, rng)
        candidates = self._candidates(process, rng)
        gains = value(candidates)
        for step in STEPS:
            best = [candidates[int(index)] for index in np.argsort(-gains)[:CLIMBERS]]
            near = [
                config for centre in best for config in neighbours(self._space, centre, rng, NEIGHBOURS_PER_BEST, step)
            ]
            candidates = [*best, *self._untried(near)]
            gains = value(candidates)
        return candidates[int(np.argmax(gains))]

    def _new_rng(self) -> np.random.Generator:
        """Return a generator for the next suggestion."""
        return np.random.default_rng([self._seed, self._sample_count])

    def _valuation(self, process: "GaussianProcess", rng: np.random.Generator) -> Callable[[Sequence[Config]], Array]:
        """Return the function that values candidates: noisy expected improvement, over the same draws for all."""
        measured = self._points(self._measured(), self._prior)
        normals = rng.standard_normal((DRAWS, len(measured.x)))

        def value(candidates: Sequence[Config]) -> Array:
            points = self._points(candidates, self._prior)
            gains = process.expected_improvement(measured, points, normals)
            return gains if self._feasibility is None else gains * self._feasibility.probability(points.x)

        return value

    def _candidates(self, process: "GaussianProcess", rng: np.random.Generator) -> list[Config]:
        """Return untried configs, or all drawn configs if every one was tried (small spaces)."""
        measured, drawn = self._measured(), self._random_candidates()
        order = np.argsort(process.predict(self._points(measured, self._prior))[0])
        for index in order[:BEST_COUNT]:
            drawn += [redrawn(self._space, measured[int(index)], rng) for _ in range(REDRAWN_PER_BEST)]
            drawn += neighbours(self._space, measured[int(index)], rng, NEIGHBOURS_PER_BEST)
        drawn += [trial.config for trial in self._earlier]
        return self._untried(drawn) or list(dict.fromkeys(drawn))

    def _random_candidates(self) -> list[Config]:
        """Return random configs; a live job without a prior has none: they rarely beat changes to measured ones."""
        if not self._are_trials_cheap and self._prior is None:
            return []
        return self._pool.after(self._sample_count)

    @property
    def _sample_count(self) -> int:
        return sum(len(trial.samples) for trial in self._trials)

    def _untried(self, configs: Sequence[Config]) -> list[Config]:
        tried = {trial.config for trial in self._trials}
        return [config for config in dict.fromkeys(configs) if config not in tried]

    def _points(self, configs: Sequence[Config], prior: Prior | None) -> Points:
        """Return the encoded configs, with the prior mean relative to the lowest one of a measured config."""
        x = np.array([self._encoded(config) for config in configs]).reshape(len(configs), self._space.dimension)
        if prior is None:
            return Points.without_prior(x)
        measured = self._measured()
        expected = prior.log_step_ms([*measured, *configs], self._trials)
        prior_mean = expected[len(measured) :] - expected[: len(measured)].min()
        if not isinstance(prior, UncertainPrior):
            return Points.with_prior(x, prior_mean)
        return Points(x, prior_mean, prior.jacobian(configs, self._trials))
