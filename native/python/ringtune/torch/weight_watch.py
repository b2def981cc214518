# SPDX-License-Identifier: Apache-2.0
"""Notices that weights change while their gradients are being combined: somebody has used gradients of this rank alone.

torch counts the writes to a parameter, and another memory in its place shows. Writes through `.data` are not counted;
some elements are kept to compare, for an update by hand changes nearly all.
"""

# ruff: noqa: SLF001  (torch's version of a tensor has no public name)

from collections.abc import Sequence

import torch

MOST_SAMPLES = 4
"""Number of parameters of which elements are kept: each costs some microseconds in every step."""
MOST_ELEMENTS = 4096
"""Most elements that are kept of one parameter."""


class WeightWatch:
    """The weights of one optimizer, from the first gradient of a step on."""

    def __init__(self) -> None:
        self._parameters: Sequence[torch.Tensor] = ()
        self._versions: list[int] = []
        self._samples: list[tuple[torch.Tensor, int, torch.Tensor]] = []  # parameter, its memory, its elements
        self.is_on = False
        """Whether there are gradients that were not combined."""

    @property
    def is_full(self) -> bool:
        """True if there are enough samples."""
        return len(self._samples) >= MOST_SAMPLES

    def begin(self, parameters: Sequence[torch.Tensor]) -> None:
        """Remember the weights as they are.

        Args:
            parameters: The parameters that are trained, by this optimizer alone.
        """
        self._parameters = parameters
        self._versions = [each._version for each in parameters]
        self.is_on = True

    def sample(self, parameter: torch.Tensor) -> bool:
        """Keep elements of a parameter that has got a gradient; return whether there are enough by now."""
        if parameter.layout is torch.strided:
            self._samples.append((parameter, parameter.data_ptr(), _elements(parameter).clone()))
        return self.is_full

    def was_written(self) -> bool:
        """Return whether torch has counted writes to the weights since `begin`, or they have other memory."""
        return self._versions != [each._version for each in self._parameters] or any(
            parameter.data_ptr() != pointer for parameter, pointer, _ in self._samples
        )

    def has_moved(self) -> bool:
        """Return whether the weights changed since `begin`; waits for a GPU."""
        return self.was_written() or any(
            not torch.equal(_elements(parameter), kept) for parameter, _, kept in self._samples
        )

    def end(self) -> None:
        """Forget the weights."""
        self._parameters, self._versions, self.is_on = (), [], False
        self._samples.clear()


def _elements(parameter: torch.Tensor) -> torch.Tensor:
    """Return elements of as many rows and columns as there are, or the first ones of a vector."""
    values = parameter.detach()
    return (values.diagonal() if values.dim() >= 2 else values).reshape(-1)[:MOST_ELEMENTS]
