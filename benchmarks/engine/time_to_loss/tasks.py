# SPDX-License-Identifier: Apache-2.0
"""Tasks of the size of a CPU, on data that packages ship: digits, characters of a text, a table of measurements."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn

from digits import Digits, residual_mlp
from text_transformer import SMALL, CharacterTransformer, Text, next_character_loss

VALIDATION_ROWS = 128  # rows of the table, windows of the text
VALIDATION_SEED = 0

Batch = tuple[Tensor, Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Task:
    """A model, its data, and the loss that it is to reach.

    Attributes:
        model: Makes the model, from torch's generator.
        loss: Mean loss of a batch's outputs and targets.
        training: Inputs and targets, in rows.
        validation: The same, kept back.
        target: Loss on `validation` that ends the training.
        batch_rows: Rows of a rank's batch.
        learning_rate: Adam's.
    """

    model: Callable[[], nn.Module]
    loss: Loss
    training: Batch
    validation: Batch
    target: float
    batch_rows: int
    learning_rate: float

    def batches(self, seed: int, rank: int, ranks: int) -> Iterator[Batch]:
        """Yield a rank's parts of the joined batches, without end."""
        generator = torch.Generator().manual_seed(seed)
        inputs, targets = self.training
        joined = self.batch_rows * ranks
        while True:
            order = torch.randperm(len(inputs), generator=generator)
            for start in range(0, len(order) - joined + 1, joined):
                mine = order[start + rank * self.batch_rows :][: self.batch_rows]
                yield inputs[mine], targets[mine]

    def validation_loss(self, model: nn.Module) -> float:
        """Return the loss on the rows that were kept back."""
        inputs, targets = self.validation
        with torch.no_grad():
            return float(self.loss(model(inputs), targets))


def digits() -> Task:
    """Return scikit-learn's handwritten digits, for a deep residual MLP."""
    data = Digits.load()
    training, validation = (data.images, data.labels), (data.test_images, data.test_labels)
    return Task(lambda: residual_mlp(128, 48), nn.functional.cross_entropy, training, validation, 0.15, 16, 1e-3)


def characters() -> Task:
    """Return Python's documentation topics, for a small transformer."""
    text = Text.load()
    windows = [ids.unfold(0, SMALL.context + 1, SMALL.context // 2) for ids in (text.training, text.validation)]
    chosen = torch.randperm(len(windows[1]), generator=torch.Generator().manual_seed(VALIDATION_SEED))
    training, validation = ((rows[:, :-1], rows[:, 1:]) for rows in (windows[0], windows[1][chosen[:VALIDATION_ROWS]]))
    return Task(
        lambda: CharacterTransformer(SMALL, text.characters), next_character_loss, training, validation, 2.4, 8, 1e-3
    )


def table() -> Task:
    """Return scikit-learn's measurements of tumours, for a wide MLP."""
    rows, labels = (torch.tensor(values) for values in load_breast_cancer(return_X_y=True))
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(VALIDATION_SEED))
    scaled = ((rows - rows.mean(0)) / rows.std(0)).float()[order]
    split = len(rows) - VALIDATION_ROWS
    training, validation = (scaled[:split], labels[order[:split]]), (scaled[split:], labels[order[split:]])

    def model() -> nn.Module:
        hidden = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU())]
        return nn.Sequential(nn.Linear(30, 512), nn.ReLU(), *hidden, nn.Linear(512, 2))

    return Task(model, nn.functional.cross_entropy, training, validation, 0.08, 16, 3e-5)


TASKS: Mapping[str, Callable[[], Task]] = {"digits": digits, "characters": characters, "table": table}
