# SPDX-License-Identifier: Apache-2.0
"""Six nets of the zoo: convolutional, MLP, transformer, recommender, many small tensors, and one bound by computing."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from benchmarks.engine.torch_backend.nets import COMPUTE_BOUND, MODELS, STACKS, Net

ITEMS = 20_000
FACTORS = 16
FIELDS = 4
ROWS = 32


class Factors(nn.Module):
    """Embeddings of a row's fields side by side, each field with a table of its own, whose gradients are dense."""

    def __init__(self) -> None:
        """Make the tables."""
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(ITEMS, FACTORS) for _ in range(FIELDS)])

    def forward(self, items: Tensor) -> Tensor:
        """Return (rows, FIELDS * FACTORS) from (rows, FIELDS)."""
        return torch.cat([table(items[:, field]) for field, table in enumerate(self.tables)], 1)


def recommender() -> Iterable[nn.Module]:
    """Yield the layers of a model with 5 MB of embeddings and a small MLP."""
    yield Factors()
    yield nn.Sequential(nn.Linear(FIELDS * FACTORS, 64), nn.ReLU())
    yield nn.Linear(64, 1)


ZOO: Mapping[str, Net] = {
    "mlp": MODELS["MLP"],
    "transformer": MODELS["small GPT"],
    "convolutional": MODELS["convolutional net"],
    "many small": STACKS["80 layers 64 wide"],
    "recommender": Net(recommender, lambda: torch.randint(ITEMS, (ROWS, FIELDS))),
    "computing": COMPUTE_BOUND["GPT, 1,024 tokens"],
}
