# SPDX-License-Identifier: Apache-2.0
"""The parameters that a DDP model reduces: those that were trained when it was wrapped, whichever are frozen by now.

DDP decides this once, in its constructor, and keeps the list in its reducer alone. Any later reducer must cover the
same parameters: one that is left out is never reduced again, though it may be trained again.
"""
# ruff: noqa: SLF001  (DDP has no public way to the parameters of its reducer)

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class ReducedParameters:
    """Parameters of a reducer, in DDP's order.

    Attributes:
        parameters: The parameters, trained or frozen.
        are_sparse: Whether each of them may get sparse gradients.
        names: Their names by index, for DDP's messages.
    """

    parameters: Sequence[torch.nn.Parameter]
    are_sparse: Sequence[bool]
    names: Mapping[int, str]

    @classmethod
    def of(cls, model: DistributedDataParallel) -> "ReducedParameters":
        """Return the parameters that the model's reducer covers.

        Raises:
            RuntimeError: If it cannot be found out any more.
        """
        covered = _covered(model)
        homes = _homes(model)
        order = {key: place for place, key in enumerate(homes)}
        # One that the model has no more comes last, in the order of the buckets, which all ranks have.
        parameters = sorted(covered, key=lambda parameter: order.get(id(parameter), len(order)))
        found = [
            homes.get(id(parameter), (False, "a parameter that the model has no more")) for parameter in parameters
        ]
        return cls(parameters, [is_sparse for is_sparse, _ in found], {i: name for i, (_, name) in enumerate(found)})

    def counts(self) -> Counter[tuple[str, tuple[int, ...]]]:
        """Return how many of each (dtype, shape) there are."""
        return Counter((str(p.dtype).removeprefix("torch."), tuple(p.shape)) for p in self.parameters)

    def total_bytes(self) -> int:
        """Return the bytes of all gradients that are reduced in a step."""
        return _bytes_of(self.parameters)

    @contextmanager
    def trained(self) -> Iterator[None]:
        """Have all of them trained inside this context, as a new reducer needs them: it puts a hook on each."""
        frozen = [parameter for parameter in self.parameters if not parameter.requires_grad]
        try:
            for parameter in frozen:
                parameter.requires_grad_(True)
            yield
        finally:
            for parameter in frozen:
                parameter.requires_grad_(False)


def _covered(model: Any) -> Sequence[torch.nn.Parameter]:
    """Return the parameters of the model's reducer, in any order that all ranks share."""
    try:
        buckets = model.reducer._get_zeros_like_grad_buckets()
    except RuntimeError as error:  # a sparse bucket before the first backward pass, or too little memory
        return _trained_as_wrapped(model, error)
    return [parameter for bucket in buckets for parameter in bucket.parameters()]


def _trained_as_wrapped(model: Any, error: RuntimeError) -> Sequence[torch.nn.Parameter]:
    """Return the parameters that are trained now, if DDP counted as many when the model was wrapped."""
    trained, _ = model._build_params_for_reducer()
    data = model._get_ddp_logging_data()
    if (len(trained), _bytes_of(trained)) != (data["num_parameter_tensors"], data["total_parameter_size_bytes"]):
        raise RuntimeError("parameters were frozen or unfrozen between DDP's constructor and autotune()") from error
    return list(trained)


def _homes(model: DistributedDataParallel) -> dict[int, tuple[bool, str]]:
    """Return, by a parameter's id and in DDP's order, whether its module makes sparse gradients, and its name."""
    homes: dict[int, tuple[bool, str]] = {}
    for module_name, module in model.module.named_modules():
        is_sparse = isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag) and module.sparse
        for name, parameter in module.named_parameters(recurse=False):
            homes.setdefault(id(parameter), (is_sparse, f"{module_name}.{name}"))
    return homes


def _bytes_of(parameters: Sequence[torch.Tensor]) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in parameters)
