# SPDX-License-Identifier: Apache-2.0
"""Compiles the operation for this environment's TensorFlow: `python -m ringtune.tensorflow_op`."""

import sys

from ringtune.graph_operations.tensorflow_op import main

if __name__ == "__main__":
    sys.exit(main())
