# SPDX-License-Identifier: Apache-2.0
"""The form of process groups: compiled, or Python's."""

import pytest
import torch

from ringtune.graph_operations import graph_library
from ringtune.graph_operations.torch_group import HOW_TO_BUILD, torch_library

needs_compiled = pytest.mark.skipif(
    not any((folder / torch_library(torch).file_name).is_file() for folder in graph_library.library_folders()),
    reason=f"process groups were not compiled: {HOW_TO_BUILD}",
)
_COMPILED = pytest.param("compiled", marks=needs_compiled)
FORMS = ["python", _COMPILED]
MOSTLY_COMPILED = [pytest.param("python", marks=pytest.mark.long), _COMPILED]
"""Forms for tests of minutes: Python's stands above the compiled one, and serves calls that this one does not."""
ALL_FORMS = [*MOSTLY_COMPILED, pytest.param("mixed", marks=needs_compiled)]
"""Forms, and ranks of both in one job."""


def choose_form(form: str, rank: int) -> None:
    """Give this rank's process groups a form, before the first of them is made.

    Args:
        form: `compiled`, `python`, or `mixed` for the compiled form on even ranks and Python's on odd ones.
        rank: This rank.
    """
    if form == "python" or (form == "mixed" and rank % 2):
        graph_library.library_folders = lambda: iter(())  # nothing was built


def check_form(form: str, rank: int) -> None:
    """Require that the default group has the form that was chosen."""
    group = type(torch.distributed.group.WORLD).__name__
    expected = "RingtuneGroup" if form == "python" or (form == "mixed" and rank % 2) else "CompiledGroup"
    assert expected == group, f"{form} on rank {rank}: {group}"
