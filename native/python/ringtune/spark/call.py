# SPDX-License-Identifier: Apache-2.0
"""A call of a user's function on several ranks, as the driver describes it to the tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .output_collector import OutputTarget


@dataclass(frozen=True)
class Call:
    """A function, its arguments, and the surroundings in which each rank calls it.

    Attributes:
        function: The user's function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        variables: Environment variables of the ranks, on top of those that their worker has.
        output: Destination of the ranks' output; None leaves it to the executors' logs.
        returns_all: Whether every rank's result is wanted, or rank 0's alone.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)
    output: OutputTarget | None = None
    returns_all: bool = True
