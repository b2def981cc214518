# SPDX-License-Identifier: Apache-2.0
"""Agreement of ranks after a call: equal values, or the same error."""

from collections.abc import Callable

import torch

import ringtune.torch as hvd


def on_rank(rank: int) -> bool:
    """Return whether this is the rank."""
    return rank == hvd.rank()


def assert_equal_everywhere(tensor: torch.Tensor) -> None:
    """Require the same bits on all ranks."""
    rows = hvd.allgather(tensor.detach().reshape(1, -1))
    assert all(torch.equal(rows[0], row) for row in rows), rows


def fails_everywhere(words: str, call: Callable[[], object]) -> None:
    """Make a call that must raise ConfigError with some words on every rank; one rank alone cannot differ."""
    try:
        call()
    except hvd.ConfigError as error:
        message = str(error)
    else:
        message = "no error"
    everybody = hvd.allgather_object(message)
    assert all(words in each for each in everybody), everybody
