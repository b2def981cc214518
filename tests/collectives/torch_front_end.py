# SPDX-License-Identifier: Apache-2.0
"""The torch front end, and tensors of torch."""

from collections.abc import Callable
from typing import Any

import torch

import ringtune.torch
from tests.collectives.front_end import FrontEnd
from tests.collectives.oracle import Array


class TorchFrontEnd(FrontEnd):
    """Tensors in CPU memory; see `FrontEnd`."""

    hvd: Any = ringtune.torch
    moved: tuple[str, ...] = ("complex64", "complex128", "float8_e5m2")

    def tensor(self, values: Array, dtype: str) -> Any:
        """Return a tensor of a dtype with these values."""
        return torch.from_numpy(values.copy()).to(getattr(torch, dtype))

    def read(self, tensor: Any) -> tuple[str, Array]:
        """Return the name of a tensor's dtype, and its values as float64 or int64."""
        plain = tensor.detach().cpu()
        plain = plain.real if plain.is_complex() else plain
        name = str(tensor.dtype).removeprefix("torch.")
        return name, plain.to(torch.float64 if plain.is_floating_point() else torch.int64).numpy()

    def gradient(self, call: Callable[[Any], Any], tensor: Any, upstream: Any) -> Any:
        """Return the gradient by the tensor that a call takes, where `upstream` is that by its result."""
        tensor.requires_grad_()
        call(tensor).backward(upstream)
        return tensor.grad
