# SPDX-License-Identifier: Apache-2.0
"""Launches two ranks of `nccl_collectives` and passes on rank 0's output: a command for `ringtune tune`."""

import sys
from pathlib import Path

from tests.gpu.torch_ranks import run_ranks

STEPS = 6

texts = run_ranks("nccl_collectives", [str(STEPS)], Path(sys.argv[1]))
sys.stdout.write(texts[0])
