# SPDX-License-Identifier: Apache-2.0
"""Functions that tests run on ranks in Spark: they are imported by the executors' Python."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ringtune.arrays as hvd
from ringtune.session.session import SESSION


@dataclass(frozen=True)
class Seen:
    """A rank's place and surroundings, as the function sees them."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    total: float
    carrier: str
    pid: int
    parent: int


def see(value: float = 1.0) -> Seen:
    """Join, sum a value over the ranks, and leave the rest to the platform."""
    hvd.init()
    total = hvd.allreduce(np.array([value * (hvd.rank() + 1)]), op=hvd.Sum)[0]
    world = SESSION.require()
    return Seen(
        hvd.rank(),
        hvd.size(),
        hvd.local_rank(),
        hvd.local_size(),
        float(total),
        world.carrier,
        os.getpid(),
        os.getppid(),
    )


def size_alone() -> int:
    """Join the world and leave it, in a task that is no rank; return its size."""
    hvd.init()
    size = hvd.size()
    hvd.shutdown()
    return size


def variables(*names: str) -> dict[str, str | None]:
    """Return variables of the rank's environment."""
    return {name: os.environ.get(name) for name in names}


def variables_by_name(name: str) -> str | None:
    """Return a variable of the rank's environment."""
    return os.environ.get(name)


def raise_on(rank: int, word: str) -> None:
    """Raise on one rank; the others wait for it in a collective."""
    hvd.init()
    if hvd.rank() == rank:
        raise ValueError(f"{word}\non two lines")
    hvd.allreduce(np.ones(1), name="never")


def say_and_raise_on(rank: int) -> None:
    """Print a line, then raise on one rank."""
    for stream in (sys.stdout, sys.stderr):
        stream.write("about to raise\n")
    raise_on(rank, "after it")


def exit_on(rank: int) -> None:
    """Leave the interpreter on one rank."""
    hvd.init()
    if hvd.rank() == rank:
        raise SystemExit(3)
    hvd.allreduce(np.ones(1), name="never")


def kill_on(rank: int) -> None:
    """Kill one rank's process."""
    hvd.init()
    if hvd.rank() == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    hvd.allreduce(np.ones(1), name="never")


def kill_executor_of(rank: int) -> None:
    """Kill the executor of one rank: the parent of the daemon that forks its Python workers."""
    hvd.init()
    if hvd.rank() == rank:
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="ascii")
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
    hvd.allreduce(np.ones(1), name="never")


def result_of_size(size: int) -> Any:
    """Return so many bytes on rank 1, and on the others None."""
    hvd.init()
    return np.arange(size, dtype=np.uint8).tobytes() if hvd.rank() == 1 else None


def lock_unless_first() -> Any:
    """Return a value that no serializer takes, but on rank 0."""
    hvd.init()
    return "first" if hvd.rank() == 0 else threading.Lock()


def join_twice() -> list[float]:
    """Leave the world and join it again."""
    return [see().total, _left_and_joined()]


def _left_and_joined() -> float:
    hvd.shutdown()
    return see().total


def train_until_tuned(most_steps: int) -> tuple[int, float]:
    """Train a toy model until the tuner has decided; return the steps, and a sum that is equal on all ranks."""
    import torch

    import ringtune.torch as torch_hvd

    torch_hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(torch_hvd.rank())
    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(4)))
    torch_hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch_hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
    )
    steps = 0
    while not torch_hvd.tuning_finished() and steps < most_steps:
        optimizer.zero_grad()
        model(torch.randn(4, 16)).square().mean().backward()
        optimizer.step()
        steps += 1
    return steps, float(sum(parameter.detach().sum() for parameter in model.parameters()))


def write_lines(count: int) -> None:
    """Write lines on both streams, by Python, by a program and without an end."""
    hvd.init()
    for number in range(count):
        sys.stdout.write(f"line {number} of rank {hvd.rank()}\n")
        hvd.barrier()
    sys.stderr.write("grüße to stderr\n")
    subprocess.run(["sh", "-c", "echo from a program"], check=True)
    sys.stdout.write("no end")


def train_elastically(folder: str, steps: int, lost_at: int) -> tuple[int, int, int, float]:
    """Train a toy model; rank 1 kills itself once, and the others wait at a commit until it is back.

    Returns:
        Rank, size, steps, and the sum of the weights.
    """
    import torch

    import ringtune.torch as torch_hvd

    torch_hvd.init()
    torch.set_num_threads(1)
    lost = Path(folder, "lost")
    model = torch.nn.Linear(4, 1)
    optimizer = torch_hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
    )

    @torch_hvd.elastic.run
    def train(state: Any) -> tuple[int, int, int, float]:
        while state.step < steps:
            optimizer.zero_grad()
            model(torch.ones(2, 4) * (torch_hvd.rank() + 1)).square().mean().backward()
            optimizer.step()
            state.step += 1
            if state.step == lost_at and torch_hvd.rank() == 1 and not lost.exists():
                lost.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if state.step % 5 == 0:
                state.commit()
            while lost.exists() and torch_hvd.size() == 1:
                state.commit()
        weights = float(sum(parameter.detach().sum() for parameter in model.parameters()))
        return torch_hvd.rank(), torch_hvd.size(), state.step, weights

    result: tuple[int, int, int, float] = train(torch_hvd.elastic.TorchState(model, optimizer, step=0))
    sys.stdout.write(f"trained {result[2]} steps\n")
    return result


def train_until_a_host_is_replaced(folder: str, steps: int) -> tuple[int, int, int, float]:
    """Train a toy model on two ranks while one's host is lost, and some steps more once there are two ranks again.

    The ranks create the file `ready` in the folder; whoever ends the host creates the file `lost`.

    Returns:
        Rank, size, number of ranks on this host, and the sum of the weights.
    """
    import torch

    import ringtune.torch as torch_hvd

    torch_hvd.init()
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch_hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
    )

    @torch_hvd.elastic.run
    def train(state: Any) -> tuple[int, int, int, float]:
        while state.left:
            optimizer.zero_grad()
            model(torch.ones(2, 4) * (torch_hvd.rank() + 1)).square().mean().backward()
            optimizer.step()
            is_lost = torch.tensor([float(Path(folder, "lost").exists())])
            know = torch_hvd.allreduce(is_lost, name="know", op=torch_hvd.Sum).item()
            if torch_hvd.size() == 2:
                Path(folder, "ready").touch()
                state.left -= know == 2
            state.commit()
        weights = float(sum(parameter.detach().sum() for parameter in model.parameters()))
        return torch_hvd.rank(), torch_hvd.size(), torch_hvd.local_size(), weights

    result: tuple[int, int, int, float] = train(torch_hvd.elastic.TorchState(model, optimizer, left=steps))
    return result
