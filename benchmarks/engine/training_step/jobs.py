# SPDX-License-Identifier: Apache-2.0
"""Training jobs of different shape: a model, its optimizer and fixed batches of random data."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from digits import small_convolution_net
from text_transformer import LARGE, CharacterTransformer, next_character_loss

CHARACTERS = 128
PIXELS = 64
CLASSES = 10
MLP_INPUTS, MLP_WIDTH, MLP_LAYERS = 256, 1024, 4
BATCHES = 8
"""Batches of a rank; a model's step n uses batch n modulo their number."""

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class TrainingJob:
    """A training job.

    Attributes:
        title: Name and size, for the table.
        make_model: Makes the model from torch's random state.
        make_optimizer: Makes the optimizer of a model's parameters.
        make_batch: Makes a batch from a random state.
        loss: Loss of outputs and targets.
    """

    title: str
    make_model: Callable[[], nn.Module]
    make_optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    make_batch: Callable[[torch.Generator], Batch]
    loss: Callable[[Tensor, Tensor], Tensor]

    def model(self) -> nn.Module:
        """Return the model with the same weights on every call."""
        torch.manual_seed(0)
        return self.make_model()

    def batches(self, rank: int) -> list[Batch]:
        """Return a rank's batches."""
        generator = torch.Generator().manual_seed(1 + rank)
        return [self.make_batch(generator) for _ in range(BATCHES)]


def _adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=3e-4)


def _sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def _text(generator: torch.Generator) -> Batch:
    windows = torch.randint(CHARACTERS, (8, LARGE.context + 1), generator=generator)
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def _images(generator: torch.Generator) -> Batch:
    return torch.rand(16, PIXELS, generator=generator), torch.randint(CLASSES, (16,), generator=generator)


def _vectors(generator: torch.Generator) -> Batch:
    return torch.randn(32, MLP_INPUTS, generator=generator), torch.randint(CLASSES, (32,), generator=generator)


def _mlp() -> nn.Module:
    widths = [MLP_INPUTS, *[MLP_WIDTH] * (MLP_LAYERS + 1)]
    layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(MLP_WIDTH, CLASSES))


JOBS = {
    "transformer": TrainingJob(
        "text transformer, 7.2 million parameters",
        lambda: CharacterTransformer(LARGE, CHARACTERS),
        _adamw,
        _text,
        next_character_loss,
    ),
    "convolutional": TrainingJob(
        "convolutional net, 14 thousand parameters",
        lambda: small_convolution_net(32),
        _sgd,
        _images,
        nn.functional.cross_entropy,
    ),
    "mlp": TrainingJob("MLP, 4.5 million parameters", _mlp, _sgd, _vectors, nn.functional.cross_entropy),
}
