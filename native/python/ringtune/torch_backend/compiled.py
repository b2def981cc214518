# SPDX-License-Identifier: Apache-2.0
"""The compiled form of a process group, where it was built: common calls on CPU tensors run without Python.

Its C++ class stands below the same Python class, which serves all other calls. Ranks of both forms work together.
"""

from functools import cache
from typing import Any, NamedTuple

import torch

from ringtune.errors import ConfigError
from ringtune.graph_operations.torch_group import HOW_TO_BUILD, torch_library
from ringtune.system.console import Console

from .call_book import CallBook
from .group import RingtuneGroup
from .meeting import Member
from .recipes import recipe


class Form(NamedTuple):
    """The form of this environment's process groups.

    Attributes:
        group_class: Their class.
        note: The name of the form, and the reason.
    """

    group_class: type[RingtuneGroup]
    note: str


@cache
def form() -> Form:
    """Return the form that process groups have here; looks once."""
    try:
        library = torch_library(torch).find()
    except ConfigError as error:
        return Form(RingtuneGroup, f"process groups run in Python: {error}; {HOW_TO_BUILD}")
    if library is None:
        return Form(RingtuneGroup, f"process groups run in Python, for they were not compiled: {HOW_TO_BUILD}")
    return Form(compiled_class(library), f"process groups run compiled, by {library.__file__}")


@cache
def tell_once(console: Console, note: str) -> None:
    """Write which form process groups have, where somebody looks for that."""
    console.debug(note)


def compiled_class(library: Any) -> type[RingtuneGroup]:
    """Return the class of process groups over a loaded library."""

    class CompiledGroup(RingtuneGroup):
        """A process group whose C++ object serves the common calls."""

        def __init__(self, member: Member) -> None:
            super().__init__(member)
            door = self.world.engine.submission_door()
            library.open(self, door, self._calls, recipe, dict(vars(RingtuneGroup)))
            self._set_limit(self._limit_s)

        def _begin(self, member: Member) -> CallBook:
            library.construct(self, member.rank, member.size)
            book: CallBook = library.book_of(self)
            return book

        def _set_limit(self, limit_s: float | None) -> None:
            super()._set_limit(limit_s)
            library.set_limit(self, limit_s or 0.0)

        def _start_coalescing(self, device: torch.device) -> None:
            super()._start_coalescing(device)
            library.set_coalescing(self, True)

        def _end_coalescing(self, device: torch.device) -> Any:
            library.set_coalescing(self, False)
            return super()._end_coalescing(device)

    for name, method in library.take_over(dict(vars(RingtuneGroup))).items():
        setattr(CompiledGroup, name, method)
    return CompiledGroup
