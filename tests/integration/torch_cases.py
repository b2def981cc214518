# SPDX-License-Identifier: Apache-2.0
"""The main function of programs whose cases use the torch front end."""

import sys
from collections.abc import Mapping
from typing import Any

import torch

import ringtune.torch as hvd
from tests.integration.plain_rank import run_cases


def main(members: Mapping[str, Any]) -> None:
    """Join the world, run the cases that the arguments name, or all, and leave the world."""
    torch.set_num_threads(1)
    hvd.init()
    run_cases(members, sys.argv[1:])
    hvd.shutdown()
