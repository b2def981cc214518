# SPDX-License-Identifier: Apache-2.0
"""Notices that weights change while their gradients are being combined: somebody has used gradients of this rank alone.

torch counts the writes to a parameter, and another memory in its place shows. Writes through `.data` are not counted;
some elements are kept to compare, for an update by hand changes nearly all.
"""

# ruff: noqa: SLF001  (torch's version of a tensor has no public name)

from collections.abc import Sequence

import torch
from torch.nn.parameter import is_lazy

SAMPLED_PARAMETERS = 4
"""Number of parameters of which elements are kept: each costs some microseconds in every step."""
SAMPLED_ELEMENTS = 4096
"""Most elements that are kept of one parameter."""


class WeightWatch:
    """The weights of one optimizer, from the first gradient of a step on."""

    def __init__(self) -> None:
        self._parameters: Sequence[torch.Tensor] = ()
        self._marks: list[tuple[int, int]] = []
        self._sample: torch.Tensor | None = None
        self.is_on = False
        """Whether there are gradients that were not combined."""

    def begin(self, parameters: Sequence[torch.Tensor]) -> None:
        """Remember the weights as they are."""
        self._parameters = [each for each in parameters if each.layout is torch.strided and not is_lazy(each)]
        self._marks = list(map(_mark, self._parameters))
        self._sample = _sample(self._parameters)
        self.is_on = True

    def has_moved(self) -> bool:
        """Return whether the weights changed since `begin`."""
        if not self.is_on:
            return False
        if any(map(_differs, self._parameters, self._marks)):
            return True
        now = _sample(self._parameters)
        return self._sample is not None and now is not None and not torch.equal(self._sample, now)

    def end(self) -> None:
        """Forget the weights."""
        self._parameters, self._sample, self.is_on = (), None, False


def _mark(parameter: torch.Tensor) -> tuple[int, int]:
    return parameter._version, parameter.data_ptr()


def _differs(parameter: torch.Tensor, mark: tuple[int, int]) -> bool:
    return _mark(parameter) != mark


def _sample(parameters: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Return elements of some parameters like the first one: diagonals, if there are matrices."""
    large = [each for each in parameters if each.dim() >= 2] or list(parameters)
    if not large:
        return None
    stride = max(1, len(large) // SAMPLED_PARAMETERS)
    first = large[0]
    chosen = [
        (each.detach().diagonal() if each.dim() >= 2 else each.detach()).reshape(-1)[:SAMPLED_ELEMENTS]
        for each in large[::stride][:SAMPLED_PARAMETERS]
        if (each.device, each.dtype) == (first.device, first.dtype)
    ]
    return torch.cat(chosen)
