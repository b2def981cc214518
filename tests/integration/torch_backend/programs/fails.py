# SPDX-License-Identifier: Apache-2.0
"""Raises an error on rank 1 while its process groups are there. Usage: fails.py FORM."""

import os
import sys

import torch
from torch import distributed as dist

from tests.integration.torch_backend.forms import check_form, choose_form


def main() -> None:
    """Make two groups, use them, and fail."""
    form, rank = sys.argv[1], int(os.environ["RANK"])
    choose_form(form, rank)
    dist.init_process_group("ringtune")
    check_form(form, rank)
    dist.all_reduce(torch.ones(3), group=dist.new_group([0, 1]))
    dist.barrier()
    if rank == 1:
        raise RuntimeError("an error of the program")
    dist.destroy_process_group()


main()
