# SPDX-License-Identifier: Apache-2.0
"""BoTorch's standard Gaussian process with noisy expected improvement of ln(time), optimised over the legal configs.

Knobs are coordinates in [0, 1], the ranks of their values; no knob of these spaces is unordered. Ten points of a
scrambled Sobol sequence come first. The acquisition function is optimised by BoTorch's local search over discrete
choices. A launch that fails is taken for the slowest time so far.
"""

import math
import warnings

import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf_discrete_local_search
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch.quasirandom import SobolEngine

from benchmarks.tuner.measured.knob_grid import KnobGrid
from ringtune.tuner import Config

INITIAL = 10
"""Points of the initial design."""
PATHS = 64
"""Draws from the posterior in an estimate of the expected improvement."""


class BotorchSampler:
    """The process, fitted anew for every suggestion."""

    def __init__(self, grid: KnobGrid, seed: int, launches: int) -> None:
        """Begin; `seed` decides every random choice."""
        del launches
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self._grid = grid
        self._seed = seed
        self._sobol = SobolEngine(len(grid.knobs), scramble=True, seed=seed)
        self._told: list[tuple[Config, float | None]] = []

    def ask(self) -> Config:
        """Return a point of the initial design, or the one that promises the largest improvement."""
        if len(self._told) <= INITIAL:
            drawn = self._sobol.draw(1)[0].tolist()
            sizes = [len(values) for values in self._grid.knobs.values()]
            return self._grid.config_at(
                [min(int(share * size), size - 1) for share, size in zip(drawn, sizes, strict=True)]
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._most_promising()

    def tell(self, config: Config, ms: float | None) -> None:
        """Note a launch."""
        self._told.append((config, ms))

    def _most_promising(self) -> Config:
        slowest_ms = max((ms for _, ms in self._told if ms is not None), default=1.0)
        x = torch.tensor([self._grid.place(config) for config, _ in self._told], dtype=torch.double)
        x /= self._scale()
        y = torch.tensor([[-math.log(slowest_ms if ms is None else ms)] for _, ms in self._told], dtype=torch.double)
        model = SingleTaskGP(x, y, outcome_transform=Standardize(m=1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        sampler = SobolQMCNormalSampler(torch.Size([PATHS]), seed=self._seed)
        gain = qLogNoisyExpectedImprovement(model, x, sampler=sampler, prune_baseline=True)
        choices = [torch.linspace(0.0, 1.0, len(values), dtype=torch.double) for values in self._grid.knobs.values()]
        point, _ = optimize_acqf_discrete_local_search(
            gain, q=1, discrete_choices=choices, num_restarts=4, raw_samples=256, X_avoid=x, unique=True
        )
        return self._grid.config_at([round(at) for at in (point[0] * self._scale()).tolist()])

    def _scale(self) -> torch.Tensor:
        return torch.tensor([len(values) - 1 for values in self._grid.knobs.values()], dtype=torch.double)
