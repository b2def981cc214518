# SPDX-License-Identifier: Apache-2.0
"""Small models under FSDP2 and their training, the same in every call, for programs that compare and tune."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.utils.checkpoint import checkpoint

WIDTH, BLOCKS = 16, 5


class Block(torch.nn.Module):
    """Two layers with a residual connection; optionally their activations are computed anew in the backward pass."""

    def __init__(self, *, is_checkpointed: bool = False) -> None:
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH)
        self.is_checkpointed = is_checkpointed

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the block's output, of the shape of its input."""
        if self.is_checkpointed:
            found: torch.Tensor = checkpoint(self._through, inputs, use_reentrant=False)
            return found
        return self._through(inputs)

    def _through(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = inputs + self.down(torch.tanh(self.up(inputs)))
        return outputs


class Stack(torch.nn.Module):
    """A layer of its own, blocks, and a head: the layer and the head belong to the root."""

    def __init__(self, blocks: int = BLOCKS, **options: Any) -> None:
        super().__init__()
        self.first = torch.nn.Linear(WIDTH, WIDTH)
        self.blocks = torch.nn.ModuleList(Block(**options) for _ in range(blocks))
        self.head = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the head's output."""
        hidden = self.first(inputs)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)  # type: ignore[no-any-return]


class Pair(torch.nn.Module):
    """Two models under FSDP2 in one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Stack(3), Stack(3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the decoder's output for the encoder's."""
        return self.decoder(self.encoder(inputs))  # type: ignore[no-any-return]


def sharded(model: Stack, **options: Any) -> Stack:
    """Return a model after `fully_shard` on its blocks and on itself."""
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **{name: value for name, value in options.items() if name != "reshard_after_forward"})
    return model


def wrapped(model: Callable[[], Stack] = Stack, **options: Any) -> Stack:
    """Return a model under FSDP2 with equal weights in every call and on every rank."""
    torch.manual_seed(3)
    return sharded(model(), **options)


def inputs_of(step: int, number: int = 0) -> torch.Tensor:
    """Return this rank's rows of a pass."""
    generator = torch.Generator().manual_seed(100 * step + 10 * number + dist.get_rank())
    return torch.randn(4, WIDTH, generator=generator)


def train(
    model: torch.nn.Module,
    steps: int,
    *,
    passes: int = 1,
    before: Callable[[int], None] = lambda _: None,
    between: Callable[[torch.nn.Module, int], None] = lambda _, __: None,
) -> list[torch.Tensor]:
    """Train some steps with Adam, clipped gradients and several passes in a step; return this rank's weights.

    Args:
        model: Model under FSDP2.
        steps: Number of steps.
        passes: Passes in a step, of which the last one reduces gradients.
        before: Called before each step.
        between: Called after each backward pass, before the optimizer's step.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.01)
    weights: list[torch.Tensor] = []
    for step in range(steps):
        before(step)
        for number in range(passes):
            if isinstance(model, FSDPModule):
                model.set_requires_gradient_sync(number == passes - 1)
            model(inputs_of(step, number)).float().square().mean().backward()
        between(model, step)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        weights += [local(parameter).detach().clone() for parameter in trained]  # a state would free what is kept
    return weights


def local_weights(model: torch.nn.Module) -> list[torch.Tensor]:
    """Return copies of this rank's shards."""
    return [local(tensor).detach().clone() for tensor in model.state_dict().values()]


def local(tensor: Any) -> torch.Tensor:
    """Return a sharded tensor's own part, or a whole one."""
    part: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part


def differing(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> int | None:
    """Return the number of the first pair of tensors that are not equal to the last bit; None if all are."""
    assert len(one) == len(other), (len(one), len(other))
    return next((index for index, pair in enumerate(zip(one, other, strict=True)) if not torch.equal(*pair)), None)
