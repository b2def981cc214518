# SPDX-License-Identifier: Apache-2.0
"""Ranks read row groups of Parquet files, and end evenly: `examples/parquet_digits.py`."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from digits import Digits
from parquet_digits import Schedule, row_groups, write
from tests.e2e.documented_commands import blocks_of, script_of
from tests.house.source_tree import REPOSITORY
from tests.integration.jobs import ringtune, run_job
from tests.platforms.parquet_training import shares, trained_alone

EXAMPLE = REPOSITORY / "examples" / "parquet_digits.py"
PAGE = REPOSITORY / "docs" / "howto" / "parquet.md"


@pytest.fixture(scope="module", name="path")
def written_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the digits' Parquet files."""
    path = tmp_path_factory.mktemp("parquet") / "digits"
    write(path, Digits.load())
    return path


@pytest.mark.parametrize("size", [1, 2, 3, 30])
def test_each_row_is_read_once_in_an_epoch(path: Path, size: int) -> None:
    """The ranks' shares are apart, and an epoch's order differs from another's."""
    digits = Digits.load()

    epochs = [
        [torch.cat([images for images, _ in share.batches(epoch, 32)] or [torch.empty(0, 64)]) for share in of_ranks]
        for of_ranks in [shares(path, size)]
        for epoch in (0, 1)
    ]

    expected = np.sort(digits.images.sum(1).numpy())
    for of_ranks in epochs:
        assert np.array_equal(expected, np.sort(torch.cat(of_ranks).sum(1).numpy()))
    assert not torch.equal(epochs[0][0], epochs[1][0])


def test_the_shares_are_uneven(path: Path) -> None:
    """Three ranks have different numbers of batches: without a join the longest would wait for ever."""
    counts = [len(list(share.batches(0, 32))) for share in shares(path, 3)]

    assert 24 == len(row_groups(path))
    assert 1 < len(set(counts)), counts


@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.long), 3])
def test_the_ranks_train_as_one_plain_process(path: Path, tmp_path: Path, size: int) -> None:
    """The weights are those of a process that takes all ranks' batches itself."""
    weights = tmp_path / "weights.pt"
    command = [sys.executable, str(EXAMPLE), str(path), "--epochs", "3", "--save", str(weights)]

    finished = run_job(ringtune("run", "-np", str(size), *command))

    assert 0 == finished.code, finished.text
    expected = trained_alone(path, size, Schedule(3, 32, 0.05))
    for name, trained in torch.load(weights).items():
        torch.testing.assert_close(trained, expected[name], rtol=1e-4, atol=1e-5, msg=name)


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    """Two ranks read the files that the page writes."""
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    finished = run_job(["bash", "-c", f"cd {tmp_path} && {script_of(blocks_of(PAGE), ('platform',))}"], {"PATH": path})

    assert 0 == finished.code, finished.text
    assert "parquet_digits: 2 ranks" in finished.stdout
