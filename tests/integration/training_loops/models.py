# SPDX-License-Identifier: Apache-2.0
"""Loops over models of every kind: two at a time, shared layers, checkpointing, compiled, sparse, uneven data."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import ringtune.torch as hvd

from .sides import Side, Values, adamw, agree, agreeing, momentum, network, refused, rows, squared, train_step, weights

STEPS = 6


def _train(side: Side, model: Any, make: Callable[[Any], Any] = momentum, **options: Any) -> Values:
    """Train a model as everybody does; return its weights."""
    optimizer = side.wrap(make(model.parameters()), model.named_parameters(), **options)
    for step in range(STEPS):
        train_step(side, optimizer, model, step)
    return weights(model)


@agreeing(how=("frozen", "zeroed", "nameless"), width=(16, 128))
def loop_generator_and_discriminator(side: Side, how: str, width: int) -> Values:
    """Two networks with layers of the same names train against each other: frozen, detached, or zeroed in between."""
    generator, judge = (
        network(width),
        torch.nn.Sequential(torch.nn.Linear(2, width), torch.nn.Linear(width, 1)),
    )
    owners = [
        side.wrap(adamw(model.parameters()), None if how == "nameless" else model.named_parameters())
        for model in (generator, judge)
    ]
    for step in range(STEPS):
        _train_judge(side, generator, judge, owners[1], step)
        judge.requires_grad_(how != "frozen")
        owners[0].zero_grad()
        side.loss(lambda rank, step=step: judge(generator(rows(step, rank))).square().mean()).backward()  # type: ignore[misc]
        owners[0].step()
        if how != "frozen":
            side.synchronize(owners[1])  # its gradients travelled as well
        judge.requires_grad_(True)
    return weights(generator, judge)


def _train_judge(side: Side, generator: Any, judge: Any, owner: Any, step: int) -> None:
    owner.zero_grad()

    def of_rank(rank: int) -> torch.Tensor:
        made = judge(generator(rows(step, rank)).detach()).square().mean()
        real = (judge(rows(step, rank, columns=2)) - 1.0).square().mean()
        total: torch.Tensor = made + real
        return total

    side.loss(of_rank).backward()
    owner.step()


@agreeing()
def loop_one_loss_for_two_optimizers(side: Side) -> Values:
    """An encoder and a decoder with an optimizer each, and one backward pass through both."""
    models = [network(), torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Linear(16, 2))]
    owners = [
        side.wrap(make(model.parameters()), model.named_parameters())
        for make, model in zip((momentum, adamw), models, strict=True)
    ]
    for step in range(STEPS):
        for owner in owners:
            owner.zero_grad()
        side.loss(squared(torch.nn.Sequential(*models), step)).backward()
        for owner in owners:
            owner.step()
    return weights(*models)


@agreeing()
def loop_shared_layers(side: Side) -> Values:
    """A layer that is used twice, and one whose weight another layer shares."""
    encoder, decoder = torch.nn.Linear(6, 16, bias=False), torch.nn.Linear(16, 6, bias=False)
    decoder.weight = torch.nn.Parameter(encoder.weight.t().detach().clone())
    twice = torch.nn.Linear(16, 16)
    tied = torch.nn.Linear(16, 16, bias=False)
    tied.weight = twice.weight
    return _train(side, torch.nn.Sequential(encoder, twice, torch.nn.Tanh(), twice, tied, decoder))


class _Checkpointed(torch.nn.Module):
    def __init__(self, *, is_reentrant: bool, uses: int) -> None:
        super().__init__()
        self.first, self.middle, self.last = torch.nn.Linear(6, 16), network_block(), torch.nn.Linear(16, 2)
        self.is_reentrant, self.uses = is_reentrant, uses

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Run the middle under checkpointing, once or more often."""
        hidden = self.first(inputs)
        for _ in range(self.uses):
            hidden = checkpoint(self.middle, hidden, use_reentrant=self.is_reentrant)
        output: torch.Tensor = self.last(hidden)
        return output


def network_block() -> torch.nn.Sequential:
    """Return the output of the checkpointed block."""
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh())


def loop_activation_checkpointing() -> None:
    """Activation checkpointing of both kinds trains as without; a layer used twice needs the kind without reentry."""
    for is_reentrant, uses in ((False, 1), (True, 1), (False, 2)):

        def loop(side: Side, is_reentrant: bool = is_reentrant, uses: int = uses) -> Values:
            return _train(side, _Checkpointed(is_reentrant=is_reentrant, uses=uses))

        agree(loop)
    model = _Checkpointed(is_reentrant=True, uses=2)
    optimizer = hvd.DistributedOptimizer(momentum(model.parameters()), named_parameters=model.named_parameters())
    for _ in range(2):  # autograd gives such a layer its gradient once for each use
        refused(squared(model, 0)(hvd.rank()).backward, "use_reentrant=False")
        optimizer.zero_grad()


@agreeing(is_late=(False, True))
def loop_compiled(side: Side, is_late: bool) -> Values:
    """A compiled model trains as the plain one, wrapped before or after compilation."""
    model = network(128)
    compiled: Any = torch.compile(model, backend="aot_eager")
    source = compiled if is_late else model
    optimizer = side.wrap(momentum(source.parameters()), source.named_parameters())
    for step in range(STEPS):
        train_step(side, optimizer, compiled, step)
    return weights(model)


def loop_kinds_of_optimizers() -> None:
    """Optimizers of all kinds: fused, foreach, maximizing, with averages, rank by rank the same bits."""
    makers: tuple[Callable[[Any], torch.optim.Optimizer], ...] = (
        lambda p: torch.optim.SGD(p, lr=0.1, fused=True),
        lambda p: torch.optim.Adam(p, lr=0.02, fused=True),
        lambda p: torch.optim.AdamW(p, lr=0.02, foreach=True, amsgrad=True),
        lambda p: torch.optim.Adam(p, lr=torch.tensor(0.02, device="cpu"), maximize=True),
        lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
        lambda p: torch.optim.Adafactor(p, lr=0.02),
        lambda p: torch.optim.NAdam(p, lr=0.02),
        torch.optim.Rprop,
        lambda p: torch.optim.ASGD(p, lr=0.02),
        lambda p: torch.optim.Adagrad(p, lr=0.05, fused=torch.get_default_device().type == "cpu"),
    )
    for make in makers:
        agree(lambda side, make=make: _train(side, network(128), make))  # type: ignore[misc]


@agreeing()
def loop_batch_norm_over_all_ranks(side: Side) -> Values:
    """`SyncBatchNorm` normalizes as `BatchNorm1d` does on the joined batch."""
    norm: Any = torch.nn.BatchNorm1d(16) if side.is_alone else hvd.SyncBatchNorm(16)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), norm, torch.nn.Linear(16, 2))
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    for step in range(STEPS):
        mine = torch.cat([rows(step, rank) for rank in range(hvd.size()) if side.is_mine(rank)])
        optimizer.zero_grad()
        model(mine).square().mean().backward()
        optimizer.step()
    return weights(model)


@agreeing(
    make=(lambda p: torch.optim.SparseAdam(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)), is_dense=(False, True)
)
def loop_sparse_embeddings(side: Side, make: Any, is_dense: bool) -> Values:
    """Embeddings with sparse gradients, reduced as they are or as dense ones; rows that only one rank looked up."""
    table = torch.nn.Embedding(20, 4, sparse=True)
    optimizer = side.wrap(make(table.parameters()), table.named_parameters(), sparse_as_dense=is_dense)
    for step in range(STEPS):

        def of_rank(rank: int, step: int = step) -> Any:
            return table(torch.tensor([step, step, 5 + rank, 19])).square().sum()

        optimizer.zero_grad()
        side.loss(of_rank).backward()
        optimizer.step()
    return weights(table)


@agreeing()
def loop_sparse_beside_dense(side: Side) -> Values:
    """A sparse table and a dense network with an optimizer each, as SparseAdam wants it."""
    table, model = torch.nn.Embedding(20, 6, sparse=True), network()
    owners = [
        side.wrap(torch.optim.SparseAdam(table.parameters(), lr=0.1), table.named_parameters()),
        side.wrap(adamw(model.parameters()), model.named_parameters()),
    ]
    for step in range(STEPS):
        for owner in owners:
            owner.zero_grad()
        side.loss(lambda rank, step=step: model(table(torch.tensor([step, rank, 7]))).square().mean()).backward()  # type: ignore[misc]
        for owner in owners:
            owner.step()
    return weights(table, model)


@agreeing()
def loop_uneven_data(side: Side) -> Values:
    """Ranks with different numbers of batches: a rank without any left joins, and counts as zeros."""
    model = network(128)
    optimizer = side.wrap(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())

    def of_rank(rank: int, step: int) -> torch.Tensor:
        return squared(model, step)(rank) if step < 2 + rank else 0.0 * model(rows(step, rank)).sum()

    for step in range(2 + (hvd.size() - 1 if side.is_alone else hvd.rank())):
        optimizer.zero_grad()
        side.loss(lambda rank, step=step: of_rank(rank, step)).backward()  # type: ignore[misc]
        optimizer.step()
    if not side.is_alone:
        last = hvd.join()
        hvd.broadcast_parameters(model.state_dict(), root_rank=last)
    return weights(model)


def loop_architectures() -> None:
    """Recurrent and attention layers, convolutions in channels_last, scalars and empty parameters."""

    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.nothing = torch.nn.Parameter(torch.tensor(1.5)), torch.nn.Parameter(torch.empty(0, 3))
            self.recurrent = torch.nn.LSTM(6, 8, batch_first=True)
            self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
            image: Any = torch.nn.Conv2d(1, 32, 3)
            self.image = image.to(memory_format=torch.channels_last)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            hidden, _ = self.recurrent(inputs[None])
            hidden, _ = self.attention(hidden, hidden, hidden)
            image = self.image(hidden[:, None]) * self.scale
            return functional.relu(image).mean() + self.nothing.sum()

    agree(lambda side: _train(side, Odd(), adamw))


def loop_groups_and_compression() -> None:
    """Grouped gradients, and gradients that travel as 16-bit floats within their rounding."""
    agree(lambda side: _train(side, network(128), momentum, num_groups=2))
    agree(lambda side: _train(side, network(128), momentum, gradient_predivide_factor=2.0))
