# SPDX-License-Identifier: Apache-2.0
"""Two sides of one training loop: on all ranks with ringtune, and in one plain process on the joined batch.

A loop is a function of its side. It wraps optimizers by `side.wrap`, and takes its loss by `side.loss`, which is this
rank's loss on one side and the mean over all ranks' losses on the other. Everything else is ordinary torch code, so
that both sides run the same lines. Models and data are on torch's default device, which the caller may set.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import product
from typing import Any, Protocol

import torch

import ringtune.torch as hvd

# Relative and absolute: ranks add in another order than one process does.
TOLERANCES = {torch.float64: (1e-9, 1e-11), torch.float32: (1e-4, 1e-6)}

Values = dict[str, Any]


class Side(Protocol):
    """The surroundings of a training loop."""

    is_alone: bool

    def wrap(self, optimizer: Any, named_parameters: Any = None, **options: Any) -> Any:
        """Return the optimizer that the loop steps with."""

    def loss(self, of_rank: Callable[[int], Any]) -> torch.Tensor:
        """Return the loss to call backward on, made of the losses of each rank's rows."""

    def synchronize(self, optimizer: Any) -> None:
        """Wait for the gradients."""

    def skip_synchronize(self, optimizer: Any) -> AbstractContextManager[None]:
        """Step without waiting again."""

    def is_mine(self, rank: int) -> bool:
        """Return whether the rows of a rank are on this side, in this process."""


class Distributed:
    """This rank's part of the work, with ringtune."""

    is_alone = False

    def wrap(self, optimizer: Any, named_parameters: Any = None, **options: Any) -> Any:
        """Return the distributed optimizer."""
        return hvd.DistributedOptimizer(optimizer, named_parameters=named_parameters, **options)

    def loss(self, of_rank: Callable[[int], Any]) -> torch.Tensor:
        """Return the loss of this rank's rows."""
        loss: torch.Tensor = of_rank(hvd.rank())
        return loss

    def synchronize(self, optimizer: Any) -> None:
        """Wait for the gradients."""
        optimizer.synchronize()

    def skip_synchronize(self, optimizer: Any) -> AbstractContextManager[None]:
        """Step without waiting again."""
        context: AbstractContextManager[None] = optimizer.skip_synchronize()
        return context

    def is_mine(self, rank: int) -> bool:
        """Return whether this is the rank."""
        return rank == hvd.rank()


class Alone:
    """All the work in one process, with plain torch."""

    is_alone = True

    def wrap(self, optimizer: Any, named_parameters: Any = None, **options: Any) -> Any:
        """Return the optimizer as it is."""
        del named_parameters, options
        return optimizer

    def loss(self, of_rank: Callable[[int], Any]) -> torch.Tensor:
        """Return the mean over the losses of all ranks' rows."""
        return torch.stack([of_rank(rank) for rank in range(hvd.size())]).mean()

    def synchronize(self, optimizer: Any) -> None:
        """Return at once: no gradient is in flight."""

    def skip_synchronize(self, optimizer: Any) -> AbstractContextManager[None]:
        """Return an empty context: no wait is to be skipped."""
        del optimizer
        return nullcontext()

    def is_mine(self, rank: int) -> bool:
        """Return True: all rows are here."""
        del rank
        return True


def network(width: int = 16) -> Any:
    """Return a network of three layers; with a width of 128 its gradients live in registered memory."""
    return torch.nn.Sequential(
        torch.nn.Linear(6, width),
        torch.nn.Tanh(),
        torch.nn.Linear(width, width),
        torch.nn.Tanh(),
        torch.nn.Linear(width, 2),
    )


def rows(step: int, rank: int, columns: int = 6, count: int = 4) -> torch.Tensor:
    """Return the rows that a rank has in a step."""
    drawn = torch.randn(count, columns, generator=torch.Generator().manual_seed(1000 * step + rank), device="cpu")
    return drawn.to(torch.get_default_device())


def squared(model: Callable[[torch.Tensor], torch.Tensor], step: int) -> Callable[[int], torch.Tensor]:
    """Return the loss of a rank's rows in a step: the mean square of the model's outputs."""
    return lambda rank: model(rows(step, rank)).square().mean()


def momentum(parameters: Any, **options: Any) -> torch.optim.SGD:
    """Return SGD that moves parameters whose gradient is zero as well."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.05, **options)


def adamw(parameters: Any, **options: Any) -> torch.optim.AdamW:
    """Return AdamW with much weight decay."""
    return torch.optim.AdamW(parameters, lr=0.02, weight_decay=0.3, **options)


def agree(loop: Callable[[Side], Values]) -> None:
    """Run a loop on both sides; require equal values up to rounding, and equal bits on all ranks.

    Args:
        loop: Returns its final state by name: tensors, numbers, or plain data.
    """
    torch.manual_seed(7)
    alone = loop(Alone())
    torch.manual_seed(7)
    ours = loop(Distributed())
    assert list(alone) == list(ours)
    problems = [problem for name, value in ours.items() for problem in _differences(name, value, alone[name])]
    everybody = hvd.allgather_object(problems)
    assert not any(everybody), "; ".join(sorted({problem for own in everybody for problem in own}))


def agreeing(**choices: Iterable[Any]) -> Callable[[Callable[..., Values]], Callable[[], None]]:
    """Return a decorator: the loop runs on both sides, as `agree` says, once for each combination of choices.

    Args:
        choices: Values of the loop's further arguments.
    """
    kept = {name: tuple(values) for name, values in choices.items()}

    def decorate(loop: Callable[..., Values]) -> Callable[[], None]:
        def both_sides() -> None:
            for chosen in product(*kept.values()):
                agree(partial(loop, **dict(zip(kept, chosen, strict=True))))

        return both_sides

    return decorate


def _differences(name: str, value: Any, expected: Any) -> Iterable[str]:
    if not isinstance(value, torch.Tensor):
        if value != expected and value != _rounded(value, expected):
            yield f"{name}: {value!r} on rank {hvd.rank()}, alone {expected!r}"
        return
    value, expected = value.detach(), expected.detach()
    if value.shape != expected.shape or value.dtype != expected.dtype:
        yield f"{name}: {value.dtype} {tuple(value.shape)}, alone {expected.dtype} {tuple(expected.shape)}"
    elif not _is_close(value, expected):
        yield f"{name}: up to {(value - expected).abs().max():.3g} off alone on rank {hvd.rank()}"
    bits = hvd.allgather(value.reshape(1, -1).contiguous(), name=f"bits.{name}")
    if not all(torch.equal(bits[0].nan_to_num(), row.nan_to_num()) for row in bits):
        yield f"{name}: differs between ranks by {(bits - bits[0]).abs().max():.3g}"


def _is_close(value: torch.Tensor, expected: torch.Tensor) -> bool:
    relative, absolute = TOLERANCES.get(value.dtype, (0.0, 0.0))
    return torch.allclose(expected, value, rtol=relative, atol=absolute, equal_nan=True)


def _rounded(value: Any, expected: Any) -> Any:
    """Return the value where it is a number that differs by rounding alone."""
    is_number = isinstance(value, float) and isinstance(expected, float)
    return value if is_number and abs(value - expected) <= 1e-9 * abs(expected) else None


def refused(call: Callable[[], object], *words: str) -> None:
    """Make a call that must raise `ConfigError` with some words on every rank."""
    text = ""
    try:
        call()
    except hvd.ConfigError as error:
        text = str(error)
    everybody = hvd.allgather_object(text)
    assert all(word in message for message in everybody for word in words), everybody


def weights(*models: torch.nn.Module) -> Values:
    """Return parameters and buffers of models by name."""
    return {
        f"{number}.{name}": tensor for number, model in enumerate(models) for name, tensor in model.state_dict().items()
    }


def train_step(side: Side, optimizer: Any, model: Any, step: int) -> None:
    """Train on the batch of a step."""
    optimizer.zero_grad()
    side.loss(squared(model, step)).backward()
    optimizer.step()


def ordinary(side: Side) -> Values:
    """Train as everybody does, after which the world is known to be as good as it was."""
    model = network()
    optimizer = side.wrap(momentum(model.parameters()), model.named_parameters())
    for step in range(6):
        train_step(side, optimizer, model, step)
    return weights(model)
