# SPDX-License-Identifier: Apache-2.0
"""Compiles the operation for this environment's JAX: `python -m ringtune.jax_op`."""

import sys

from ringtune.graph_operations.jax_op import main

if __name__ == "__main__":
    sys.exit(main())
