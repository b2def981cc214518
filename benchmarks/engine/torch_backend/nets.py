# SPDX-License-Identifier: Apache-2.0
"""Nets whose steps are timed: stacks of layers, a convolutional net, an MLP, a small GPT; and a GPT that generates."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

VOCABULARY = 256


@dataclass(frozen=True)
class Net:
    """A net and its batch.

    Attributes:
        layers: Makes its layers, in order; each is a shard of FSDP2.
        batch: Makes a rank's batch.
    """

    layers: Callable[[], Iterable[nn.Module]]
    batch: Callable[[], Tensor]


class Block(nn.Module):
    """A layer of a GPT: causal attention and an MLP, each behind a norm and beside a residual connection.

    Args:
        width: Features of a token.
        heads: Heads of the attention.
    """

    def __init__(self, width: int, heads: int) -> None:
        """Make the weights."""
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.up, self.down = nn.Linear(width, width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head_features = width // heads
        self.kept: list[Tensor] = []

    def forward(self, tokens: Tensor, *, keeps: bool = False) -> Tensor:
        """Return (batch, tokens, width). With `keeps`, earlier calls' keys and values are attended to as well."""
        normed = self.norms[0](tokens)
        query, key, value = (self._heads(weights(normed)) for weights in (self.query, self.key, self.value))
        if keeps:
            key, value = self._with_kept(key, value)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=not keeps)
        tokens = tokens + self.out(attended.transpose(1, 2).flatten(2))
        found: Tensor = tokens + self.down(functional.gelu(self.up(self.norms[1](tokens))))
        return found

    def _heads(self, features: Tensor) -> Tensor:
        batch, tokens, _ = features.shape
        return features.view(batch, tokens, -1, self.head_features).transpose(1, 2)

    def _with_kept(self, key: Tensor, value: Tensor) -> list[Tensor]:
        pairs = zip(self.kept, (key, value), strict=True) if self.kept else ((key,), (value,))
        self.kept = [torch.cat(tuple(pair), 2) for pair in pairs]
        return self.kept


def gpt(width: int, layers: int) -> Iterable[nn.Module]:
    """Yield the layers of a GPT with heads of 32 features."""
    yield nn.Embedding(VOCABULARY, width)
    for _ in range(layers):
        yield Block(width, width // 32)
    yield nn.Linear(width, VOCABULARY)


def stack(width: int, layers: int) -> Net:
    """Return a stack of linear layers that gets 16 rows."""
    return Net(
        lambda: (nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)),
        lambda: torch.randn(16, width),
    )


def convolutional() -> Iterable[nn.Module]:
    """Yield the layers of a small convolutional net for pictures of 32 by 32."""
    for before, after in ((3, 32), (32, 64), (64, 128), (128, 256)):
        yield nn.Sequential(nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU())
    yield nn.Sequential(nn.Flatten(), nn.Linear(256 * 4, 512), nn.ReLU())
    yield nn.Linear(512, 10)


def mlp() -> Iterable[nn.Module]:
    """Yield the layers of an MLP with two hidden layers of 1,024."""
    for before, after in ((256, 1024), (1024, 1024)):
        yield nn.Sequential(nn.Linear(before, after), nn.ReLU())
    yield nn.Linear(1024, 10)


def of_tokens(rows: int, tokens: int) -> Callable[[], Tensor]:
    """Return the maker of a batch of random tokens."""
    return lambda: torch.randint(VOCABULARY, (rows, tokens))


STACKS: Mapping[str, Net] = {
    "6 layers 128 wide": stack(128, 6),
    "6 layers 512 wide": stack(512, 6),
    "80 layers 64 wide": stack(64, 80),
}
MODELS: Mapping[str, Net] = {
    "convolutional net": Net(convolutional, lambda: torch.randn(8, 3, 32, 32)),
    "MLP": Net(mlp, lambda: torch.randn(16, 256)),
    "small GPT": Net(lambda: gpt(128, 4), of_tokens(2, 32)),
}
COMPUTE_BOUND: Mapping[str, Net] = {"GPT, 1,024 tokens": Net(lambda: gpt(128, 4), of_tokens(8, 128))}


class Generator:
    """A GPT with random weights whose layers are cut over the ranks of a mesh (tensor parallel).

    Args:
        mesh: The ranks, in one dimension.
        width: Features of a token.
        layers: Number of blocks.
    """

    def __init__(self, mesh: DeviceMesh, width: int, layers: int) -> None:
        """Make the weights, the same on all ranks, and keep this rank's parts."""
        torch.manual_seed(0)
        self._embedding, *between, self._head = gpt(width, layers)
        self._blocks = [block for block in between if isinstance(block, Block)]
        columns = {name: ColwiseParallel() for name in ("query", "key", "value", "up")}
        rows = {name: RowwiseParallel() for name in ("out", "down")}
        for block in self._blocks:
            parallelize_module(block, mesh, {**columns, **rows})

    @torch.no_grad()
    def generate(self, tokens: int) -> list[int]:
        """Return the most probable tokens after token 0, one after the other."""
        for block in self._blocks:
            block.kept = []
        found = [0]
        for _ in range(tokens):
            features = self._embedding(torch.tensor([[found[-1]]]))
            for block in self._blocks:
                features = block(features, keeps=True)
            found.append(int(self._head(features)[0, -1].argmax()))
        return found
