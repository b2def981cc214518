# SPDX-License-Identifier: Apache-2.0
"""Functions that `torch.compile` leaves out of its graphs.

The compiler would trace the engine's calls, and their findings about gradients, as if they were a model's
arithmetic. Here it breaks the graph, runs the function as it stands, and goes on behind it.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def untraced(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Keep the compiler out of a function; the compiler is not imported for it."""
    untyped: Any = function

    @functools.wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        apart = getattr(function, "_apart", None)
        if apart is None:
            if "torch._dynamo" not in sys.modules:
                return function(*args, **kwargs)
            apart = untyped._apart = torch.compiler.disable(function)  # noqa: SLF001  (the mark is ours)
        result: _Result = apart(*args, **kwargs)
        return result

    return call
