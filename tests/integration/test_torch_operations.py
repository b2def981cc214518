# SPDX-License-Identifier: Apache-2.0
"""The torch front end in real jobs of one to four ranks, against one process's results."""

import re
from pathlib import Path

import pytest

from tests.collectives.cases import bound
from tests.collectives.torch_front_end import TorchFrontEnd
from tests.integration.jobs import Finished, ranks, run_job

OPERATIONS = (
    *bound(TorchFrontEnd()),
    *(f"case_{name}" for name in ("facts", "group_that_fails", "handles", "layouts", "objects", "refusals_of_torch")),
    *("case_sparse", "case_splits"),
)
MEANINGS = (
    "averages",
    "buffers",
    "lazy_views",
    "mismatches",
    "moves",
    "numbers_of_numpy",
    "refused_midway",
    "value_errors",
)
OPTIONS = (
    "adasum",
    "added",
    "compression",
    "groups",
    "passes",
    "predivide",
    "process_set",
    "refusals",
    "rejoined",
    "sparse",
    "sparse_bytes",
    "sum",
)


def assert_said(finished: Finished, words: str, count: int) -> None:
    """Require that a job ended well and that all of its ranks said so."""
    assert 0 == finished.code, finished.text
    assert count == finished.stdout.count(words), finished.text


@pytest.mark.parametrize("count", [1, 2, 3, pytest.param(4, marks=pytest.mark.long)])
def test_every_operation_and_dtype_is_right(count: int) -> None:
    """All operations of all dtypes that are reduced and awkward shapes give the results of a local reference."""
    finished = run_job(ranks(count, "torch_operations"))

    assert 0 == finished.code, finished.text
    right = re.findall(r"^(\w+): right$", finished.stdout, re.MULTILINE)
    assert sorted(OPERATIONS * count) == sorted(f"case_{name}" for name in right), finished.text


@pytest.mark.parametrize("count", [1, 3])
def test_programs_of_horovod_find_what_they_rely_on(count: int) -> None:
    """Every dtype is moved, averages of integers are truncated, None is skipped, refusals leave no tensor in flight."""
    finished = run_job(ranks(count, "horovod_meanings"))

    assert 0 == finished.code, finished.text
    right = re.findall(r"^(\w+): right$", finished.stdout, re.MULTILINE)
    assert sorted(MEANINGS * count) == sorted(right), finished.text


@pytest.mark.parametrize("count", [1, 3])
def test_gradients_go_through_collectives(count: int) -> None:
    """Results are part of autograd's graph, by Horovod's rules."""
    assert_said(run_job(ranks(count, "torch_autograd")), "gradients are right", count)


@pytest.mark.parametrize("count", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_every_option_of_the_optimizer_agrees_with_a_single_process(count: int) -> None:
    """Compression, groups, predivision, sparse gradients, Adasum, process sets, and coming back after a shutdown."""
    finished = run_job(ranks(count, "torch_optimizer"))

    assert 0 == finished.code, finished.text
    agreed = re.findall(r"^(\w+): right$", finished.stdout, re.MULTILINE)
    assert sorted(OPTIONS * count) == sorted(agreed), finished.text


@pytest.mark.parametrize("count", [2, 4])
def test_process_sets_work_side_by_side(count: int) -> None:
    """Sets made at init and later run every collective, at the same time; others are refused."""
    assert_said(run_job(ranks(count, "torch_process_sets")), "sets are right", count)


@pytest.mark.parametrize("count", [1, 3])
def test_ranks_join_when_their_data_ends(count: int) -> None:
    """A joined rank counts as zeros, all learn which was last, and operations that need every rank fail."""
    assert_said(run_job(ranks(count, "torch_join")), "joined", count)


@pytest.mark.parametrize("count", [1, 3])
def test_batch_statistics_are_those_of_the_whole_batch(count: int) -> None:
    """SyncBatchNorm gives results, gradients and running statistics of one process with all rows."""
    assert_said(run_job(ranks(count, "torch_sync_batch_norm")), "statistics are joint", count)


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.long), 3])
def test_buckets_of_ddp_go_through_the_hook(count: int, tmp_path: Path) -> None:
    """DDP with the hook trains as without; each bucket is one operation, each backward pass one step."""
    assert_said(run_job(ranks(count, "torch_ddp", str(tmp_path / "store"))), "buckets are right", count)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("count", "times"), [(3, 30), pytest.param(2, 1000, marks=pytest.mark.long)])
def test_nothing_leaks_over_many_lives(count: int, times: int) -> None:
    """A process may join and leave again and again: descriptors, threads and memory do not add up."""
    finished = run_job(ranks(count, "torch_rejoin", str(times)), deadline_s=150 + times / 2)

    assert_said(finished, f"{times} times", count)


def test_the_default_device_of_torch_does_not_matter() -> None:
    """The front end names the device of its own tensors, so `torch.set_default_device` has no effect on them."""
    assert_said(run_job(ranks(2, "torch_default_device")), "right", 2)
