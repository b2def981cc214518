# SPDX-License-Identifier: Apache-2.0
"""Aggregation of gradients on a server's part of the parameters."""

import torch

from benchmarks.parameter_server.shard import Shard, bounds_of

RATE = 0.5


def gradient(value: float) -> torch.Tensor:
    """Return a gradient of this value in each of three parameters."""
    return torch.full((3,), value)


def test_a_synchronous_round_answers_all_with_the_sum_of_its_gradients() -> None:
    """Nobody gets an answer before the last gradient; then all get the same parameters."""
    shard = Shard(torch.ones(3), 3, is_asynchronous=False)

    early = [shard.exchange(gradient(value), 0, RATE) for value in (1.0, 2.0)]
    were_early_done = [answer.done() for answer in early]
    last = shard.exchange(gradient(4.0), 0, RATE)

    assert [False, False] == were_early_done
    for answer in (*early, last):
        parameters, applied, staleness = answer.value()
        assert torch.equal(torch.full((3,), 1.0 - RATE * 7.0), parameters)
        assert (3, 0) == (applied, staleness)


def test_rounds_are_apart() -> None:
    """A second round does not contain the gradients of the first."""
    shard = Shard(torch.zeros(3), 1, is_asynchronous=False)

    shard.exchange(gradient(1.0), 0, RATE)
    parameters, applied, _ = shard.exchange(gradient(2.0), 1, RATE).value()

    assert torch.equal(torch.full((3,), -RATE * 3.0), parameters)
    assert 2 == applied


def test_an_asynchronous_gradient_is_answered_at_once_with_its_staleness() -> None:
    """The answer says how many gradients of others came since the caller's parameters."""
    shard = Shard(torch.zeros(3), 2, is_asynchronous=True)

    first, applied, fresh = shard.exchange(gradient(1.0), 0, RATE).value()
    second, _, stale = shard.exchange(gradient(1.0), 0, RATE).value()

    assert (1, 0, 1) == (applied, fresh, stale)
    assert torch.equal(gradient(-RATE), first)  # later gradients do not change an answer that is on its way
    assert torch.equal(gradient(-2 * RATE), second)


def test_a_rate_of_zero_changes_nothing() -> None:
    """Warm-up steps leave the parameters as they are."""
    for is_asynchronous in (False, True):
        shard = Shard(gradient(1.0), 1, is_asynchronous=is_asynchronous)

        assert torch.equal(gradient(1.0), shard.exchange(gradient(9.0), 0, 0.0).value()[0])


def test_servers_divide_all_parameters_evenly() -> None:
    """Every parameter is on one server, and parts differ by one at most."""
    assert [(0, 10)] == bounds_of(10, 1)
    assert [(0, 3), (3, 6), (6, 10)] == bounds_of(10, 3)
