# SPDX-License-Identifier: Apache-2.0
"""Checks gradients through the collectives against Horovod's rules, computed by one process."""

import torch

import ringtune.torch as hvd
from tests.integration.plain_rank import say


def leaf(rank: int, rows: int = 4) -> torch.Tensor:
    """Return a rank's tensor that requires a gradient."""
    return (torch.arange(3.0 * rows).reshape(rows, 3) + rank).requires_grad_()


def upstream(rank: int, rows: int) -> torch.Tensor:
    """Return the gradient that reaches a rank's result; it differs between ranks."""
    return torch.arange(3.0 * rows).reshape(rows, 3) * (rank + 1)


def gradient(tensor: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a leaf."""
    assert tensor.grad is not None
    return tensor.grad


def check_allreduce(rank: int, size: int) -> None:
    """The gradient of a sum is the sum, of an average the average, scaled alike; groups too."""
    all_upstream = torch.stack([upstream(other, 4) for other in range(size)])
    for op, expected in ((hvd.Sum, all_upstream.sum(0)), (hvd.Average, all_upstream.mean(0))):
        tensor = leaf(rank)
        hvd.allreduce(tensor, op=op, prescale_factor=3.0, postscale_factor=0.5).backward(upstream(rank, 4))
        assert torch.allclose(1.5 * expected, gradient(tensor))
        tensors = [leaf(rank), leaf(rank)]
        first, second = hvd.grouped_allreduce(tensors, op=op)
        (first * upstream(rank, 4) + 2 * second * upstream(rank, 4)).sum().backward()
        assert torch.allclose(expected, gradient(tensors[0]))
        assert torch.allclose(2 * expected, gradient(tensors[1]))
    tensor = leaf(rank)
    hvd.allreduce(tensor, compression=hvd.Compression.fp16).sum().backward()
    assert torch.allclose(torch.ones(4, 3), gradient(tensor))


def check_twice(rank: int, size: int) -> None:
    """A second derivative goes through the collective again."""
    tensor = leaf(rank)
    (first,) = torch.autograd.grad((hvd.allreduce(tensor, op=hvd.Sum) ** 2).sum(), tensor, create_graph=True)
    first.sum().backward()
    assert torch.allclose(torch.full((4, 3), 2.0 * size * size), gradient(tensor))


def check_gathers(rank: int, size: int) -> None:
    """A gathered row's gradient is the ranks' average, a scattered row's is gathered, a sent row's comes back."""
    rows = [other + 2 for other in range(size)]
    mine = slice(sum(rows[:rank]), sum(rows[: rank + 1]))
    tensor = leaf(rank, rows[rank])
    hvd.allgather(tensor).backward(upstream(rank, sum(rows)))
    average = torch.stack([upstream(other, sum(rows)) for other in range(size)]).mean(0)
    assert torch.allclose(average[mine], gradient(tensor))
    both = [leaf(rank, rows[rank]), leaf(rank, 1)]
    long, short = hvd.grouped_allgather(both)
    (long * upstream(rank, sum(rows))).sum().add(short.sum()).backward()
    assert torch.allclose(average[mine], gradient(both[0]))
    assert torch.allclose(torch.ones(1, 3), gradient(both[1]))
    for op, factor in ((hvd.Average, 1.0), (hvd.Sum, float(size))):
        tensor = leaf(rank, 2 * size + 1)
        result = hvd.reducescatter(tensor, op=op)
        result.backward(torch.full_like(result, rank + 1.0))
        counts = [2 + (1 if other == 0 else 0) for other in range(size)]
        expected = torch.cat([torch.full((count, 3), factor * (other + 1.0)) for other, count in enumerate(counts)])
        assert torch.allclose(expected, gradient(tensor)), op
    splits = [(rank + target) % 3 for target in range(size)]
    tensor = leaf(rank, sum(splits))
    received, _ = hvd.alltoall(tensor, splits=splits)
    received.backward(torch.full_like(received, rank + 1.0))
    back = torch.arange(1.0, size + 1).repeat_interleave(torch.tensor(splits))
    assert torch.allclose(back[:, None].expand(-1, 3), gradient(tensor))


def check_broadcast(rank: int, size: int) -> None:
    """The root gets the average, the others nothing."""
    root = size - 1
    tensor = leaf(rank)
    hvd.broadcast(tensor, root).backward(upstream(rank, 4))
    average = torch.stack([upstream(other, 4) for other in range(size)]).mean(0)
    assert torch.allclose(average if rank == root else torch.zeros(4, 3), gradient(tensor))


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
check_allreduce(own, ranks)
check_twice(own, ranks)
check_gathers(own, ranks)
check_broadcast(own, ranks)
check_no_graph(own)
hvd.shutdown()
say("gradients are right")
