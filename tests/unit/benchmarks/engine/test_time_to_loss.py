# SPDX-License-Identifier: Apache-2.0
"""Tasks that are trained to a loss: ranks share the joined batches, and held-out data are never trained on."""

from dataclasses import replace
from itertools import islice

import pytest
import torch

from benchmarks.engine.time_to_loss.tasks import TASKS

RANKS = 2


@pytest.mark.parametrize("name", TASKS)
def test_ranks_have_parts_of_the_batches_that_one_process_has(name: str) -> None:
    """For ten batches, ranks of one seed have the parts of the batch that a single rank has whole."""
    task = TASKS[name]()
    parts = [islice(task.batches(3, rank, RANKS), 10) for rank in range(RANKS)]
    joined = [tuple(torch.cat(halves) for halves in zip(*both, strict=True)) for both in zip(*parts, strict=True)]

    alone = islice(replace(task, batch_rows=RANKS * task.batch_rows).batches(3, 0, 1), 10)

    for (inputs, targets), (all_inputs, all_targets) in zip(joined, alone, strict=True):
        assert torch.equal(all_inputs, inputs)
        assert torch.equal(all_targets, targets)


@pytest.mark.parametrize("name", ["digits", "table"])
def test_rows_that_are_kept_back_are_not_trained_on(name: str) -> None:
    """No row is in both; windows of the text are of its last tenth alone."""
    task = TASKS[name]()
    rows = {tuple(row) for row in task.training[0].tolist()}

    assert not rows & {tuple(row) for row in task.validation[0].tolist()}


@pytest.mark.parametrize("name", TASKS)
def test_a_target_is_not_reached_without_training(name: str) -> None:
    """An untrained model is far from it."""
    task = TASKS[name]()
    torch.manual_seed(0)

    assert task.validation_loss(task.model()) > 1.5 * task.target
