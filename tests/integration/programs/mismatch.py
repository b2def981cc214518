# SPDX-License-Identifier: Apache-2.0
"""Submits tensors that differ between ranks and goes on with the engine after each."""

from collections.abc import Callable

import torch

import ringtune.torch as hvd
from tests.integration.plain_rank import say


def expect_mismatch(what: str, call: Callable[[], object]) -> None:
    """Make a call that must raise MismatchError naming the tensor, then use the engine."""
    try:
        call()
    except hvd.MismatchError as error:
        text = str(error)
    else:
        raise AssertionError(f"{what} did not raise")
    assert what in text, text
    assert float(hvd.size()) == hvd.allreduce(torch.ones(1), op=hvd.Sum).item()


torch.set_num_threads(1)
hvd.init()
rank = hvd.rank()
expect_mismatch("shape", lambda: hvd.allreduce(torch.zeros(3 + rank), name="shape"))
expect_mismatch("rows", lambda: hvd.allreduce(torch.zeros(2, 3) if rank else torch.zeros(3, 2), name="rows"))
expect_mismatch(
    "dtype", lambda: hvd.allreduce(torch.zeros(3).to(torch.float64 if rank else torch.float32), name="dtype")
)
expect_mismatch("op", lambda: hvd.allreduce(torch.zeros(3), name="op", op=hvd.Sum if rank else hvd.Average))
expect_mismatch("root", lambda: hvd.broadcast(torch.zeros(3), rank, name="root"))
expect_mismatch("gathered", lambda: hvd.allgather(torch.zeros(2, 3 + rank), name="gathered"))
image = torch.zeros(1, 3, 3, 3)
image = image.to(memory_format=torch.channels_last) if rank else image
expect_mismatch("format", lambda: hvd.allreduce(image + 0, name="format"))
first = hvd.allreduce_async(torch.ones(3), name="twice")
expect_mismatch("twice", lambda: hvd.allreduce_async(torch.ones(3), name="twice"))
assert torch.equal(torch.ones(3), hvd.synchronize(first))
say("still usable")
hvd.shutdown()
