# SPDX-License-Identifier: Apache-2.0
"""Compiles process groups against this environment's torch: `python -m ringtune.torch_backend`."""

import sys

from ringtune.graph_operations.torch_group import main

if __name__ == "__main__":
    sys.exit(main())
