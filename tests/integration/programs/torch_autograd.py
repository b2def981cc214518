# SPDX-License-Identifier: Apache-2.0
"""Checks gradients of the torch front end alone: compression, second derivatives, and results without a graph."""

import torch

import ringtune.torch as hvd
from tests.integration.plain_rank import say


def leaf(rank: int) -> torch.Tensor:
    """Return a rank's tensor that requires a gradient."""
    return (torch.arange(12.0).reshape(4, 3) + rank).requires_grad_()


def gradient(tensor: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a leaf."""
    assert tensor.grad is not None
    return tensor.grad


def check_compression(rank: int) -> None:
    """A gradient goes back through the compression."""
    tensor = leaf(rank)
    hvd.allreduce(tensor, compression=hvd.Compression.fp16).sum().backward()
    assert torch.allclose(torch.ones(4, 3), gradient(tensor))


def check_twice(rank: int, size: int) -> None:
    """A second derivative goes through the collective again."""
    tensor = leaf(rank)
    (first,) = torch.autograd.grad((hvd.allreduce(tensor, op=hvd.Sum) ** 2).sum(), tensor, create_graph=True)
    first.sum().backward()
    assert torch.allclose(torch.full((4, 3), 2.0 * size * size), gradient(tensor))


def check_no_graph(rank: int) -> None:
    """Without a wanted gradient there is no graph; Min has no gradient and says so."""
    assert not hvd.allreduce(leaf(rank).detach()).requires_grad
    with torch.no_grad():
        assert not hvd.allgather(leaf(rank)).requires_grad
    smallest = hvd.allreduce(leaf(rank), op=hvd.Min)
    try:
        smallest.sum().backward()
    except hvd.ConfigError as error:
        text = str(error)
    else:
        raise AssertionError("Min passed a gradient on")
    assert "no gradient" in text, text


torch.set_num_threads(1)
hvd.init()
own, ranks = hvd.rank(), hvd.size()
check_compression(own)
check_twice(own, ranks)
check_no_graph(own)
hvd.shutdown()
say("gradients are right")
