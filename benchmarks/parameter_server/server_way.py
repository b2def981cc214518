# SPDX-License-Identifier: Apache-2.0
"""Parameter servers over torch's RPC: TensorPipe with its defaults, one call per step and server, flat tensors."""

import os
from functools import cache

import torch
from torch import Tensor, nn
from torch.distributed import rpc
from torch.futures import Future

from .shard import Answer, Shard, bounds_of
from .student import Batch, Student
from .trial import SERVER, Role

RPC_LIMIT_S = 60.0


class Served:
    """Holder of the shard that this process serves."""

    shard: Shard | None = None

    def serve(self, shard: Shard) -> None:
        """Take the shard, before the first call comes."""
        self.shard = shard


@cache
def served() -> Served:
    """Return this process's holder: calls name a function of a module, and find the shard by it."""
    return Served()


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def exchange(gradient: Tensor, seen: int, rate: float) -> Future[Answer]:
    """Run on a server: take a worker's gradient (`Shard.exchange`)."""
    shard = served().shard
    if shard is None:
        raise RuntimeError("a gradient came before the shard was there; meet the servers before the first step")
    return shard.exchange(gradient, seen, rate)


def join_rpc(role: Role) -> None:
    """Enter the RPC group: servers first, then workers."""
    trial = role.trial
    os.environ |= {"TP_SOCKET_IFNAME": role.interface, "GLOO_SOCKET_IFNAME": role.interface}  # RPC meets by Gloo
    rpc.init_rpc(
        role.name,
        rank=role.number if role.kind == SERVER else trial.servers + role.number,
        world_size=trial.servers + trial.workers,
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
            init_method=f"file://{role.folder / 'rpc'}", rpc_timeout=RPC_LIMIT_S
        ),
    )


class ServerRole:
    """One parameter server."""

    def __init__(self, role: Role) -> None:
        """Hold this server's part of the first parameters, and join."""
        trial = role.trial
        parameters = Student(trial, 0).parameters()
        begin, end = bounds_of(len(parameters), trial.servers)[role.number]
        shard = Shard(parameters[begin:end].clone(), trial.workers, is_asynchronous=trial.is_asynchronous)
        served().serve(shard)
        join_rpc(role)

    def close(self) -> None:
        """Leave when everybody does."""
        rpc.shutdown()


class ServerWay:
    """A worker's steps under parameter servers.

    Attributes:
        staleness: Gradients of others that each own gradient had missed, step by step.
    """

    def __init__(self, role: Role, student: Student) -> None:
        """Join, and lay the model's parameters and gradients out as vectors, which are sent without another copy."""
        self._student, self._servers = student, role.trial.servers
        self._parameters, self._gradient = student.flatten()
        self._bounds = bounds_of(len(self._parameters), self._servers)
        self._seen = [0] * self._servers
        self.staleness: list[int] = []
        join_rpc(role)

    def step(self, batch: Batch, rate: float) -> int:
        """Compute a gradient, exchange it for new parameters; return how many gradients are in them."""
        images, labels = batch
        self._gradient.zero_()
        nn.functional.cross_entropy(self._student.model(images), labels).backward()
        calls: list[Future[Answer]] = [
            rpc.rpc_async(f"{SERVER}{number}", exchange, args=(self._gradient[begin:end], self._seen[number], rate))
            for number, (begin, end) in enumerate(self._bounds)
        ]
        for number, (call, (begin, end)) in enumerate(zip(calls, self._bounds, strict=True)):
            parameters, self._seen[number], staleness = call.wait()
            with torch.no_grad():
                self._parameters[begin:end].copy_(parameters)
            if number == 0:
                self.staleness.append(staleness)
        return self._seen[0]

    def close(self) -> None:
        """Leave when everybody does."""
        rpc.shutdown()
