# SPDX-License-Identifier: Apache-2.0
"""Train a model data-parallel, for a given time or number of steps or until the tuner has finished, and report.

Duty: the loop that the examples share. It knows the front end's Horovod names and PyTorch, not the model or its data.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import ringtune.torch as hvd
from ringtune.system.counts import counted

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Budget:
    """When a job ends: after its steps (or epochs), and with `waits_for_tuner` not before the tuner has finished."""

    epochs: int
    steps: int | None = None
    waits_for_tuner: bool = False


@dataclass(frozen=True)
class Report:
    """The results of a job, as rank 0 writes them."""

    example: str
    seed: int
    world_size: int
    parameters: int
    tensors: int
    steps: int
    seconds: float
    steps_per_s: float
    tuning_finished: bool
    metrics: dict[str, float]  # accuracy, or loss, on data the model has not seen


@dataclass
class Training:
    """One rank's share of a data-parallel job.

    Attributes:
        model: Equal on all ranks before the first step (`synchronize_start`).
        optimizer: Any PyTorch optimizer over the model's parameters.
        loss: Maps (model output, targets) to a scalar.
        steps: Optimizer steps done.
        seconds: Time spent in them.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[[Tensor, Tensor], Tensor]
    steps: int = 0
    seconds: float = 0.0

    def synchronize_start(self) -> None:
        """Give every rank rank 0's weights and optimizer state, and reduce gradients from here on."""
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(self.optimizer, root_rank=0)
        self.optimizer = hvd.DistributedOptimizer(self.optimizer, named_parameters=self.model.named_parameters())

    def run(
        self,
        batches_of: Callable[[int], Iterable[Batch]],
        budget: Budget,
        is_tuned: Callable[[], bool] = hvd.tuning_finished,
    ) -> None:
        """Train until the budget is used up.

        Args:
            batches_of: Maps an epoch's number to this rank's batches; equally many on every rank.
            budget: When to stop.
            is_tuned: Whether the tuner has finished: the same answer on every rank after the same step.
        """
        started = time.monotonic()
        epoch = 0
        is_done = False
        while not is_done:
            is_planned_work_done = self._run_epoch(batches_of(epoch), budget)
            epoch += 1
            is_planned_work_done |= budget.steps is None and epoch >= budget.epochs
            is_done = is_planned_work_done and (not budget.waits_for_tuner or is_tuned())
        self.seconds = time.monotonic() - started

    def _run_epoch(self, batches: Iterable[Batch], budget: Budget) -> bool:
        """Take the epoch's steps; return whether the planned number of steps has been taken."""
        self.model.train()
        for inputs, targets in batches:
            self.optimizer.zero_grad()
            self.loss(self.model(inputs), targets).backward()
            self.optimizer.step()
            self.steps += 1
            if budget.steps is not None and self.steps >= budget.steps and not budget.waits_for_tuner:
                break
        return budget.steps is not None and self.steps >= budget.steps

    def report(self, example: str, seed: int, metrics: dict[str, float]) -> Report:
        """Return the job's report."""
        parameters = list(self.model.parameters())
        return Report(
            example=example,
            seed=seed,
            world_size=hvd.size(),
            parameters=sum(parameter.numel() for parameter in parameters),
            tensors=len(parameters),
            steps=self.steps,
            seconds=self.seconds,
            steps_per_s=self.steps / self.seconds,
            tuning_finished=hvd.tuning_finished(),
            metrics=metrics,
        )


def add_common_arguments(
    parser: argparse.ArgumentParser, *, batch_size: int, epochs: int, learning_rate: float
) -> None:
    """Add the flags that every example has."""
    parser.add_argument("--epochs", type=int, default=epochs, help="passes over the training data")
    parser.add_argument("--steps", type=int, help="stop after this many steps instead")
    parser.add_argument("--batch-size", type=int, default=batch_size, help="examples per rank and step")
    parser.add_argument("--learning-rate", type=float, default=learning_rate)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="PyTorch threads per rank")
    parser.add_argument("--train-for-tuner", action="store_true",
                        help="keep training until the tuner has finished")  # fmt: skip
    parser.add_argument("--report", type=Path, metavar="FILE", help="rank 0 writes what the job came to as JSON")


def budget_of(arguments: argparse.Namespace) -> Budget:
    """Return the budget that the common flags ask for."""
    return Budget(epochs=arguments.epochs, steps=arguments.steps, waits_for_tuner=arguments.train_for_tuner)


def publish(report: Report, path: Path | None) -> None:
    """Print the report in a line and, if asked, write it to a file."""
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in report.metrics.items())
    size = f"{counted(report.world_size, 'rank')}, {report.parameters:,} parameters in {report.tensors} tensors"
    pace = f"{counted(report.steps, 'step')} in {report.seconds:.1f} s ({report.steps_per_s:.1f}/s)"
    print(f"{report.example}: {size}, {pace}, {metrics}")
    if path is not None:
        path.write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")
