# SPDX-License-Identifier: Apache-2.0
"""The program that both arms run for a file of gradients: steps that make them in the file's order.

Arguments: the arm, the file. A step's backward pass fills one new tensor per gradient, each after the other, as a
backward pass completes them. The optimizer's step is a no-op.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

from ringtune.errors import RingtuneError
from ringtune.measuring.bench.workloads import read_workload

from .messages import Arm


class _MakeGradient(torch.autograd.Function):
    """One gradient in a chain: forward passes a token on, backward makes the gradient and passes the token back."""

    @staticmethod
    def forward(ctx: Any, token: torch.Tensor, parameter: torch.Tensor, value: float) -> torch.Tensor:
        """Return the token."""
        ctx.save_for_backward(parameter)
        ctx.value = value
        return token.clone()

    @staticmethod
    def backward(ctx: Any, token: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Return the token and a new gradient, each of whose elements is the value."""
        (parameter,) = ctx.saved_tensors
        return token, torch.full_like(parameter, ctx.value), None


class GradientMaker(torch.nn.Module):
    """A model whose backward pass makes the gradients of a file, in its order."""

    def __init__(self, elements: Sequence[int]) -> None:
        """Make a parameter of zeros for each gradient; `elements` in the order of the backward pass."""
        super().__init__()
        # DDP expects gradients in the opposite order of the parameters.
        self.last_first = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(each)) for each in reversed(elements))

    def forward(self, value: float) -> torch.Tensor:
        """Return the token for `backward()`; each element of each gradient will be `value`."""
        token = torch.zeros(1, requires_grad=True)
        for parameter in self.last_first:
            token = _MakeGradient.apply(token, parameter, value)  # type: ignore[no-untyped-call]
        return token


class StandingOptimizer(torch.optim.Optimizer):
    """An optimizer whose step leaves the parameters as they are."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Ignore it: the parameters stay as they are."""
        del closure


def main(arm: Arm, path: Path) -> None:
    """Make steps until somebody ends the program.

    Raises:
        RingtuneError: If an average is wrong.
    """
    model: torch.nn.Module = GradientMaker([gradient.elements for gradient in read_workload(path).gradients])
    optimizer: torch.optim.Optimizer = StandingOptimizer(model.parameters())
    parameters = list(model.parameters())
    if arm == "ddp":
        dist.init_process_group("gloo")
        rank, size = dist.get_rank(), dist.get_world_size()
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        import ringtune.torch as hvd  # noqa: PLC0415  (the other arm has no engine)

        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    expected = (size + 1) / 2
    is_checked = False
    while True:
        optimizer.zero_grad()
        model(float(rank + 1)).backward()
        optimizer.step()
        if not is_checked:
            _check(parameters, expected)
            is_checked = True


def _check(parameters: Sequence[torch.nn.Parameter], expected: float) -> None:
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is None or not torch.allclose(gradient, torch.full_like(gradient, expected)):
            raise RingtuneError(f"a gradient of {parameter.numel()} elements has a wrong average, not {expected:g}")


if __name__ == "__main__":
    main("ddp" if sys.argv[1] == "ddp" else "ringtune", Path(sys.argv[2]))
