# SPDX-License-Identifier: Apache-2.0
"""The JAX front end, as it is and inside of compiled functions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ringtune.jax
from tests.collectives.front_end import FrontEnd
from tests.collectives.oracle import Array


class JaxFrontEnd(FrontEnd):
    """Arrays of JAX, for 64-bit dtypes with `jax_enable_x64`; see `FrontEnd`."""

    hvd: Any = ringtune.jax
    shapes = ((), (0,), (3, 5))
    has_rows = False
    has_horovods_gradients = False
    left_out = frozenset({"mixed", "gradients_of_sums", "gradients_of_moves"})  # no handles; `grad` traces

    def tensor(self, values: Array, dtype: str) -> Any:
        """Return an array of a dtype with these values."""
        return jnp.asarray(values.astype(jnp.dtype(dtype)))  # JAX would compile a conversion of its own

    def read(self, tensor: Any) -> tuple[str, Array]:
        """Return the name of an array's dtype, and its values as float64 or int64."""
        is_float = jnp.issubdtype(tensor.dtype, jnp.floating)
        return tensor.dtype.name, np.asarray(tensor).astype(np.float64 if is_float else np.int64)

    def gradient(self, call: Callable[[Any], Any], tensor: Any, upstream: Any) -> Any:
        """Return the gradient by the array that a call takes, where `upstream` is that by its result."""
        return self._compiled(jax.grad(lambda array: (call(array) * upstream).sum()))(tensor)


class CompiledJax(JaxFrontEnd):
    """The same in compiled functions, where all ranks have as many rows, and errors are XLA's."""

    has_ragged = False
    left_out = frozenset({"mixed", "refusals"})

    def __init__(self) -> None:
        """Take a few dtypes and shapes: each is compiled anew."""
        super().__init__(compiled=jax.jit, is_brief=True)
