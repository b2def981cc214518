# SPDX-License-Identifier: Apache-2.0
"""A parameter server's share of the parameters: one flat vector that gradients are applied to.

A worker sends its gradient and gets the parameters in one call. The synchronous kind answers all workers when the last
gradient of a round has come, the asynchronous one each at once. The shard knows no network.
"""

import itertools
from threading import Lock
from typing import TypeAlias

import torch
from torch import Tensor
from torch.futures import Future

Answer: TypeAlias = tuple[Tensor, int, int]
"""Parameters; gradients in them; gradients that others applied since the caller's last answer (its staleness)."""


class Shard:
    """A contiguous part of the parameters, under plain stochastic gradient descent."""

    def __init__(self, parameters: Tensor, workers: int, *, is_asynchronous: bool) -> None:
        """Take the first values.

        Args:
            parameters: Shape (n,); changed in place.
            workers: Number of gradients of a synchronous round.
            is_asynchronous: Whether each gradient is applied by itself.
        """
        self._parameters = parameters
        self._workers = workers
        self._is_asynchronous = is_asynchronous
        self._lock = Lock()  # calls arrive on several threads
        self._applied = 0
        self._sum = torch.zeros_like(parameters)
        self._round: list[Future[Answer]] = []

    def exchange(self, gradient: Tensor, seen: int, rate: float) -> Future[Answer]:
        """Take a gradient; the answer has the parameters after it.

        Args:
            gradient: Shape (n,).
            seen: Number of gradients in the parameters that it was computed from.
            rate: Learning rate, a factor on each single gradient; equal for all workers of a round.
        """
        answer: Future[Answer] = Future()
        with self._lock:
            if self._is_asynchronous:
                staleness = self._applied - seen
                self._parameters.add_(gradient, alpha=-rate)
                self._applied += 1
                # The answer is sent while later gradients change the parameters: it needs a copy.
                answered, values = [answer], (self._parameters.clone(), self._applied, staleness)
            else:
                answered, values = self._join(gradient, rate, answer)
        for each in answered:
            each.set_result(values)
        return answer

    def _join(self, gradient: Tensor, rate: float, answer: Future[Answer]) -> tuple[list[Future[Answer]], Answer]:
        """Add to the round's sum; the last one applies it, and gets everybody's answers to give."""
        self._sum.add_(gradient)
        self._round.append(answer)
        if len(self._round) < self._workers:
            return [], (self._parameters, self._applied, 0)
        self._parameters.add_(self._sum, alpha=-rate)
        self._sum.zero_()
        self._applied += self._workers
        answered, self._round = self._round, []
        # No copy: nobody changes the parameters before every worker has got them and sent its next gradient.
        return answered, (self._parameters, self._applied, 0)


def bounds_of(parameters: int, servers: int) -> list[tuple[int, int]]:
    """Return where each server's part begins and ends; parts differ by at most one parameter."""
    ends = [parameters * number // servers for number in range(servers + 1)]
    return list(itertools.pairwise(ends))
