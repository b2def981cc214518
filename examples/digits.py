# SPDX-License-Identifier: Apache-2.0
"""Learn to read scikit-learn's handwritten digits, data-parallel.

Run it alone, on two ranks, or under torchrun; with `AUTOTUNE=1` the engine tunes itself while it trains:

    python examples/digits.py
    AUTOTUNE=1 ringtune run -np 2 python examples/digits.py --train-for-tuner
    torchrun --nproc-per-node 2 examples/digits.py

The default model is a residual MLP with many tensors, so that reducing gradients is a large share of a step. `--small`
is the opposite: a convolution net whose few gradients are soon reduced, so that tuning has no gain.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import ringtune.torch as hvd
from training import Batch, Training, add_common_arguments, budget_of, publish

TEST_IMAGES = 360  # out of 1,797
WIDTH, DEPTH = 128, 48  # 0.8 million parameters in 198 tensors: much to reduce for a step of 20 to 30 ms
BATCH_SIZE = 16


class ResidualBlock(nn.Module):
    """Add one normalized, activated linear map to its input; keeps the shape (batch, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the inputs plus the block's contribution."""
        return inputs + nn.functional.relu(self.linear(self.norm(inputs)))


def residual_mlp(width: int, depth: int) -> nn.Module:
    """Return a network of `depth` residual blocks: (batch, 64) pixels to (batch, 10) logits."""
    blocks = [ResidualBlock(width) for _ in range(depth)]
    return nn.Sequential(nn.Linear(64, width), *blocks, nn.LayerNorm(width), nn.Linear(width, 10))


def small_convolution_net(channels: int) -> nn.Module:
    """Return a network of few parameters and much work per image: (batch, 64) pixels to (batch, 10) logits."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(channels * 16, 10),
    )


@dataclass(frozen=True)
class Digits:
    """Images of shape (n, 64) in [0, 1] and labels of shape (n,), split into training and test data."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    @classmethod
    def load(cls) -> "Digits":
        """Return scikit-learn's digits under a split that is the same in every run."""
        images, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(labels))
        pixels = torch.tensor(images[order] / 16, dtype=torch.float32)
        targets = torch.tensor(labels[order])
        return cls(pixels[TEST_IMAGES:], targets[TEST_IMAGES:], pixels[:TEST_IMAGES], targets[:TEST_IMAGES])

    def batches(self, seed: int, epoch: int, batch_size: int) -> Iterator[Batch]:
        """Yield this rank's part of each joined batch; the joined batches do not depend on the number of ranks."""
        order = torch.randperm(len(self.labels), generator=torch.Generator().manual_seed(seed * 100_003 + epoch))
        joined = batch_size * hvd.size()
        for start in range(0, len(order) - joined + 1, joined):
            mine = order[start + hvd.rank() * batch_size :][:batch_size]
            yield self.images[mine], self.labels[mine]

    def accuracy(self, model: nn.Module) -> float:
        """Return the share of test images that the model reads correctly."""
        model.eval()
        with torch.no_grad():
            predicted = model(self.test_images).argmax(dim=1)
        return float((predicted == self.test_labels).float().mean())


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags; a batch size that the data cannot fill is a usage error."""
    parser = argparse.ArgumentParser(description="Learn to read handwritten digits, data-parallel.")
    add_common_arguments(parser, batch_size=BATCH_SIZE, epochs=10, learning_rate=0.05)
    parser.add_argument("--width", type=int, default=WIDTH, help="features of the residual MLP")
    parser.add_argument("--depth", type=int, default=DEPTH, help="blocks of the residual MLP")
    parser.add_argument("--small", action="store_true", help="few gradients, much work: nothing for the tuner to gain")
    return parser.parse_args()


def main() -> None:
    """Train on this rank; rank 0 reports."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    hvd.init()
    digits = Digits.load()
    joined = arguments.batch_size * hvd.size()
    if joined > len(digits.labels):
        message = f"--batch-size {arguments.batch_size} on {hvd.size()} ranks needs {joined} images a step"
        raise SystemExit(f"{message}; there are {len(digits.labels)}: lower it")

    model = small_convolution_net(32) if arguments.small else residual_mlp(arguments.width, arguments.depth)
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.learning_rate, momentum=0.9)
    training = Training(model, optimizer, nn.functional.cross_entropy)
    training.synchronize_start()
    training.run(lambda epoch: digits.batches(arguments.seed, epoch, arguments.batch_size), budget_of(arguments))

    if hvd.rank() == 0:
        name = "digits (small)" if arguments.small else "digits"
        publish(training.report(name, arguments.seed, {"accuracy": digits.accuracy(model)}), arguments.report)
    hvd.shutdown()


if __name__ == "__main__":
    main()
