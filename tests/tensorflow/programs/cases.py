# SPDX-License-Identifier: Apache-2.0
"""Support for the programs of this folder: running cases by name, requiring errors, and the ways of gradients."""

from collections.abc import Mapping
from typing import Any

from ringtune import tensorflow_op
from tests.integration.plain_rank import say


def run_cases(members: Mapping[str, Any], chosen: list[str]) -> None:
    """Run a module's `case_` functions, or those chosen, and say which were right."""
    cases = {name.removeprefix("case_"): case for name, case in members.items() if name.startswith("case_")}
    for name in chosen or cases:
        say(f"{name}: begins")
        cases[name]()
        say(f"{name}: right")


def choose_way(way: str, rank: int) -> None:
    """Make this rank's gradients go a way where graphs are made.

    Args:
        way: `operations`, `numpy`, or `mixed` for operations on even ranks and numpy functions on odd ones.
        rank: This rank.
    """
    if way == "numpy" or (way == "mixed" and rank % 2):
        tensorflow_op._folders = lambda: iter(())  # nothing was built
