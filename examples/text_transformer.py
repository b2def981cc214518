# SPDX-License-Identifier: Apache-2.0
"""Learn to write like Python's own documentation topics, character by character, data-parallel.

A transformer with embeddings and many tensors: under one million parameters by default, about seven million with
`--large`. It runs as the digits do: alone, under `ringtune run -np 2`, or under torchrun.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn

import ringtune.torch as hvd
from training import Batch, Training, add_common_arguments, budget_of, publish

STEPS_PER_EPOCH = 100
VALIDATION_BATCHES = 8


@dataclass(frozen=True)
class Shape:
    """The size of the transformer."""

    width: int
    depth: int
    heads: int
    context: int  # characters that a prediction can look back on


SMALL = Shape(width=128, depth=4, heads=4, context=64)
LARGE = Shape(width=256, depth=9, heads=8, context=64)


class TransformerBlock(nn.Module):
    """Causal self-attention and a two-layer network, each added to its input of shape (batch, context, width)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_norm = nn.LayerNorm(shape.width)
        self.query_key_value = nn.Linear(shape.width, 3 * shape.width)
        self.attention_output = nn.Linear(shape.width, shape.width)
        self.network = nn.Sequential(
            nn.LayerNorm(shape.width),
            nn.Linear(shape.width, 4 * shape.width),
            nn.GELU(),
            nn.Linear(4 * shape.width, shape.width),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return inputs of shape (batch, context, width) plus the outputs of attention and network."""
        projected = self.query_key_value(self.attention_norm(inputs))
        query, key, value = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in projected.chunk(3, dim=2))
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden: Tensor = inputs + self.attention_output(attended.transpose(1, 2).flatten(2))
        outputs: Tensor = hidden + self.network(hidden)
        return outputs


class CharacterTransformer(nn.Module):
    """Predict the next character: (batch, context) ids to (batch, context, characters) logits."""

    def __init__(self, shape: Shape, characters: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.Sequential(*(TransformerBlock(shape) for _ in range(shape.depth)))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, characters)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits of each position's next character."""
        hidden = self.characters(ids) + self.positions(torch.arange(ids.shape[1]))
        logits: Tensor = self.head(self.norm(self.blocks(hidden)))
        return logits


@dataclass(frozen=True)
class Text:
    """Character ids of shape (n,): the training part, and the held-out part."""

    training: Tensor
    validation: Tensor
    characters: int

    @classmethod
    def load(cls) -> "Text":
        """Return Python's documentation topics; the last tenth is kept back."""
        text = "".join(topics[name] for name in sorted(topics))
        id_of = {character: index for index, character in enumerate(sorted(set(text)))}
        ids = torch.tensor([id_of[character] for character in text])
        split = len(ids) * 9 // 10
        return cls(ids[:split], ids[split:], len(id_of))

    def batches(self, seed: int, epoch: int, batch_size: int, context: int) -> Iterator[Batch]:
        """Yield an epoch's batches of this rank: (batch, context) ids, and the same moved by one character."""
        generator = torch.Generator().manual_seed((seed * 100_003 + epoch) * 1_009 + hvd.rank())
        for _ in range(STEPS_PER_EPOCH):
            yield _windows(self.training, batch_size, context, generator)

    def validation_loss(self, model: nn.Module, batch_size: int, context: int) -> float:
        """Return the mean loss, in nats per character, on text that was kept back."""
        generator = torch.Generator().manual_seed(0)
        model.eval()
        with torch.no_grad():
            batches = [_windows(self.validation, batch_size, context, generator) for _ in range(VALIDATION_BATCHES)]
            return sum(float(next_character_loss(model(ids), targets)) for ids, targets in batches) / len(batches)


def _windows(ids: Tensor, batch_size: int, context: int, generator: torch.Generator) -> Batch:
    starts = torch.randint(len(ids) - context, (batch_size, 1), generator=generator)
    windows = ids[starts + torch.arange(context + 1)]
    return windows[:, :-1], windows[:, 1:]


def next_character_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross entropy of (batch, context, characters) logits, in nats per character."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description="Learn to write like Python's documentation, data-parallel.")
    add_common_arguments(parser, batch_size=8, epochs=3, learning_rate=3e-4)
    parser.add_argument("--large", action="store_true", help="about seven million parameters")
    return parser.parse_args()


def main() -> None:
    """Train on this rank; rank 0 reports."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    hvd.init()
    text = Text.load()
    shape = LARGE if arguments.large else SMALL

    model = CharacterTransformer(shape, text.characters)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    training = Training(model, optimizer, next_character_loss)
    training.synchronize_start()
    training.run(
        lambda epoch: text.batches(arguments.seed, epoch, arguments.batch_size, shape.context), budget_of(arguments)
    )

    if hvd.rank() == 0:
        loss = text.validation_loss(model, arguments.batch_size, shape.context)
        metrics = {"loss_nats_per_character": loss, "perplexity": math.exp(loss)}
        publish(training.report("text transformer", arguments.seed, metrics), arguments.report)
    hvd.shutdown()


if __name__ == "__main__":
    main()
