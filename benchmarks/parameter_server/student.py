# SPDX-License-Identifier: Apache-2.0
"""The model and the data of every way: a perceptron that learns scikit-learn's handwritten digits."""

from collections.abc import Iterator
from functools import cache
from typing import TypeAlias

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from .trial import Trial

Batch: TypeAlias = tuple[Tensor, Tensor]
PIXELS, CLASSES, BRIGHTEST = 64, 10, 16


@cache
def all_digits() -> Batch:
    """Return all images, shape (1797, 64) in [0, 1], and their labels."""
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images / BRIGHTEST, dtype=torch.float32), torch.tensor(labels)


class Student:
    """A worker's model, with its share of the data.

    Attributes:
        model: Two hidden layers; images of shape (batch, 64) to logits of shape (batch, 10).
    """

    def __init__(self, trial: Trial, worker: int) -> None:
        """Make the model, which is the same on all workers of a trial and in all ways of a round."""
        torch.manual_seed(trial.seed)
        self.model: nn.Module = nn.Sequential(
            nn.Linear(PIXELS, trial.width),
            nn.ReLU(),
            nn.Linear(trial.width, trial.width),
            nn.ReLU(),
            nn.Linear(trial.width, CLASSES),
        )
        self._images, self._labels = all_digits()
        self._trial = trial
        self._generator = torch.Generator().manual_seed(trial.seed * 1_000_003 + worker)

    def batches(self) -> Iterator[Batch]:
        """Yield images drawn with replacement, without end; each worker draws its own."""
        while True:
            drawn = torch.randint(len(self._labels), (self._trial.batch_size,), generator=self._generator)
            yield self._images[drawn], self._labels[drawn]

    def flatten(self) -> tuple[Tensor, Tensor]:
        """Move all parameters into one vector, and all gradients into another; return both, shape (parameters,)."""
        parameters = list(self.model.parameters())
        flat = parameters_to_vector(parameters).detach().clone()
        gradient = torch.zeros_like(flat)
        vector_to_parameters(flat, parameters)  # each parameter becomes a view
        ends = torch.tensor([parameter.numel() for parameter in parameters]).cumsum(0).tolist()
        for parameter, end in zip(parameters, ends, strict=True):
            parameter.grad = gradient[end - parameter.numel() : end].view_as(parameter)
        return flat, gradient

    def parameters(self) -> Tensor:
        """Return a copy of all parameters, shape (parameters,)."""
        return parameters_to_vector(self.model.parameters()).detach().clone()

    def loss_at(self, parameters: Tensor) -> float:
        """Return the mean loss over all images under some parameters, which then are the model's."""
        vector_to_parameters(parameters, self.model.parameters())
        with torch.no_grad():
            return float(nn.functional.cross_entropy(self.model(self._images), self._labels))
