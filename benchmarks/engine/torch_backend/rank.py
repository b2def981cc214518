# SPDX-License-Identifier: Apache-2.0
"""Answers of one rank to the questions of the benchmark; its arguments are FORM ROUNDS WHAT..."""

import sys
import warnings

import torch
import torch.distributed as dist

from benchmarks.engine.torch_backend.questions import QUESTIONS
from benchmarks.engine.torch_backend.turns import Turns
from ringtune.graph_operations import graph_library


def main() -> None:
    """Measure, and print on rank 0."""
    form, rounds, *what = sys.argv[1:]
    warnings.simplefilter("ignore", FutureWarning)  # torch's new names of collectives
    torch.set_num_threads(1)
    if form == "python":
        graph_library.library_folders = lambda: iter(())  # as if the compiled form had not been built
    dist.init_process_group("ringtune")
    groups = (dist.new_group(backend="gloo"), dist.group.WORLD)
    for question in what:
        for row in QUESTIONS[question](groups, Turns(int(rounds))):
            if dist.get_rank() == 0:
                sys.stdout.write(f"{row}\n")
                sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
