# SPDX-License-Identifier: Apache-2.0
"""A small training that records its batches, and its replay in one process.

A step's record is the epoch and the indices of each rank's batch. The records are values of the state: a commit keeps
them, a loss takes back those of the steps that it undoes.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

import ringtune.torch as hvd

SAMPLES = 48
FEATURES = 5
BATCH = 2
RATE = 0.05
Record = Sequence[Any]  # epoch, [[index, ...] of each rank]


class Numbered(torch.utils.data.Dataset[Any]):
    """Samples with their indices."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(7)
        self.inputs = torch.randn(SAMPLES, FEATURES, generator=generator, dtype=torch.float64)
        self.targets = torch.randn(SAMPLES, 1, generator=generator, dtype=torch.float64)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        return index, self.inputs[index], self.targets[index]


@dataclass(frozen=True)
class Recipe:
    """A way to train.

    Attributes:
        width: Size of the hidden layer; a wide one has gradients in registered memory.
        passes: Backward passes of a step.
        options: Further arguments of `DistributedOptimizer`.
        is_scaled: Whether a `GradScaler` is used.
        has_closure: Whether the step computes loss and gradients.
        follows_size: Whether the learning rate is scaled with the number of ranks.
        can_replay: Whether one process can compute the same.
    """

    width: int = 8
    passes: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    is_scaled: bool = False
    has_closure: bool = False
    follows_size: bool = False
    can_replay: bool = True


PLAIN = Recipe()
RECIPES = {
    "plain": PLAIN,
    "registered": Recipe(width=4096),
    "accumulated": Recipe(passes=2),
    "accumulated and registered": Recipe(width=4096, passes=2),
    "grouped": Recipe(options={"groups": 2}),
    "adasum": Recipe(options={"op": hvd.Adasum}, can_replay=False),
    "compressed": Recipe(options={"compression": hvd.Compression.fp16}, can_replay=False),
    "scaled": Recipe(is_scaled=True),
    "with a closure": Recipe(has_closure=True),
    "with a rate that follows the size": Recipe(follows_size=True),
}


def new_model(recipe: Recipe = PLAIN) -> torch.nn.Module:
    """Return the model with the weights that training begins with."""
    torch.manual_seed(11)
    hidden = torch.nn.Linear(FEATURES, recipe.width, dtype=torch.float64)
    return torch.nn.Sequential(hidden, torch.nn.Tanh(), torch.nn.Linear(recipe.width, 1, dtype=torch.float64))


def new_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer with state."""
    return torch.optim.AdamW(model.parameters(), lr=RATE)


def new_state(recipe: Recipe = PLAIN) -> Any:
    """Return the state of a training that has not begun."""
    model = new_model(recipe)
    optimizer = new_optimizer(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.9)
    optimizer = hvd.DistributedOptimizer(
        optimizer, model.named_parameters(), backward_passes_per_step=recipe.passes, **recipe.options
    )
    state = hvd.elastic.TorchState(
        model,
        optimizer,
        scheduler=scheduler,
        scaler=torch.amp.GradScaler("cpu", enabled=recipe.is_scaled, init_scale=4.0),
        sampler=hvd.elastic.ElasticSampler(Numbered(), seed=3),
        epoch=0,
        records=[],
    )
    if recipe.follows_size:
        state.register_resize_policy(hvd.elastic.scale_learning_rate)
    return state


def backward(state: Any, recipe: Recipe, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Compute the gradients of a batch, in as many passes as the recipe has, and return the loss."""
    total = torch.zeros((), dtype=torch.float64)
    for rows, wanted in zip(inputs.chunk(recipe.passes), targets.chunk(recipe.passes), strict=True):
        loss = torch.nn.functional.mse_loss(state.model(rows), wanted) / recipe.passes
        state.scaler.scale(loss).backward()
        total += loss.detach()
    return total


def train_step(state: Any, recipe: Recipe, batch: Sequence[torch.Tensor]) -> None:
    """Train with a batch and write it down."""
    indices, inputs, targets = batch
    state.optimizer.zero_grad()
    if recipe.has_closure:
        state.optimizer.step(lambda: backward(state, recipe, inputs, targets))
    else:
        backward(state, recipe, inputs, targets)
        state.scaler.step(state.optimizer)
        state.scaler.update()
    state.scheduler.step()
    gathered = hvd.allgather(indices, name="indices").reshape(hvd.size(), -1)
    state.records.append([state.epoch, gathered.tolist()])


def train(
    state: Any, epochs: int, after_step: Callable[[Any], None], steps_per_commit: int = 1, recipe: Recipe = PLAIN
) -> None:
    """Train up to a number of epochs.

    Args:
        state: Result of `new_state`.
        epochs: Number of epochs.
        after_step: Called with the state after each step, before the commit.
        steps_per_commit: Steps from commit to commit; after the others it looks for updates alone.
        recipe: Recipe of the state.
    """
    for epoch in range(state.epoch, epochs):
        state.epoch = epoch
        state.sampler.set_epoch(state.epoch)
        loader = torch.utils.data.DataLoader(state.sampler.dataset, batch_size=BATCH, sampler=state.sampler)
        for number, batch in enumerate(loader):
            train_step(state, recipe, batch)
            state.sampler.record_batch(number, BATCH)
            after_step(state)
            if len(state.records) % steps_per_commit == 0:
                state.commit()
            else:
                state.check_host_updates()


def replayed(records: Sequence[Record], recipe: Recipe = PLAIN) -> list[float]:
    """Return the weights that one process gets from the same batches."""
    model, data = new_model(recipe), Numbered()
    optimizer = new_optimizer(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.9)
    state, size = SimpleNamespace(optimizer=optimizer, scheduler=scheduler), len(records[0][1])
    for _, batches in records:
        if recipe.follows_size and len(batches) != size:
            hvd.elastic.scale_learning_rate(hvd.elastic.Resize(state, size, len(batches)))
        size = len(batches)
        optimizer.zero_grad()
        for indices in batches:
            loss = torch.nn.functional.mse_loss(model(data.inputs[indices]), data.targets[indices])
            (loss / len(batches)).backward()
        optimizer.step()
        scheduler.step()
    return weights_of(model)


def weights_of(model: torch.nn.Module) -> list[float]:
    """Return all weights."""
    return [float(weight) for parameter in model.parameters() for weight in parameter.detach().flatten()]


def check(records: Sequence[Record], weights: Sequence[float], epochs: int, recipe: Recipe = PLAIN) -> None:
    """Check weights against a replay, and that each epoch has seen every sample; only the padding comes again."""
    if recipe.can_replay:
        expected = torch.tensor(replayed(records, recipe), dtype=torch.float64)
        torch.testing.assert_close(torch.tensor(weights, dtype=torch.float64), expected, rtol=1e-9, atol=1e-11)
    for epoch in range(epochs):
        steps = [batches for number, batches in records if number == epoch]
        seen = Counter(index for batches in steps for indices in batches for index in indices)
        assert set(range(SAMPLES)) == set(seen), (epoch, sorted(set(range(SAMPLES)) - set(seen)))
        fill = sum(len(batches) - 1 for batches in steps[-1:])
        assert seen.total() <= SAMPLES + fill, (epoch, seen)
