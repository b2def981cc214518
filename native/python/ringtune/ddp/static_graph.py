# SPDX-License-Identifier: Apache-2.0
"""DDP's check of a static graph, carried over to the reducers that take the first one's place.

With `static_graph=True` a reducer learns in its first backward pass how often each parameter is used, and raises where
a later pass differs. A new reducer learns anew, and a graph that changes in that pass would go by unnoticed. Such a
pass is compared here with one of the first reducer's.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from .reduced_parameters import ReducedParameters


class StaticGraph:
    """Uses of a model's parameters in one backward pass of each reducer. Used from the thread that trains."""

    def __init__(self, reduced: ReducedParameters) -> None:
        """Take the parameters that the model reduces."""
        self._reduced = reduced
        self._counted: object | None = None  # the last reducer that a pass was counted of
        self._expected: Counter[int] | None = None
        self._found: Counter[int] = Counter()
        self._hooks: list[RemovableHandle] = []

    def begin_pass(self, model: DistributedDataParallel) -> None:
        """Count uses from now on, unless a pass of this reducer was counted before."""
        if self._counted is model.reducer or self._hooks:
            return
        self._found.clear()
        for index, parameter in enumerate(self._reduced.parameters):
            if parameter.requires_grad:
                untyped: Any = parameter  # torch leaves the method without annotations
                self._hooks.append(untyped.register_post_accumulate_grad_hook(self._counting(index)))

    def end_pass(self, model: DistributedDataParallel) -> None:
        """Compare the uses that were counted, if any, with those of the first reducer.

        Raises:
            RuntimeError: If the graph has changed, as DDP itself would say.
        """
        if not self._hooks:
            return
        self.remove()
        self._counted = model.reducer
        if self._expected is None:
            self._expected = Counter(self._found)
        expected = self._expected
        for index, name in self._reduced.names.items():
            if expected[index] != self._found[index]:
                raise RuntimeError(
                    f"Your training graph has changed in this iteration: {name} was used {expected[index]} times in "
                    f"each before, and {self._found[index]} times in this one. This is not compatible with "
                    "static_graph set to True."
                )

    def remove(self) -> None:
        """Count no more."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _counting(self, index: int) -> Callable[[torch.Tensor], None]:
        def count(_: torch.Tensor) -> None:
            self._found[index] += 1

        return count
