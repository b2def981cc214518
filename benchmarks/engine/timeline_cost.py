# SPDX-License-Identifier: Apache-2.0
"""Time steps with the timeline and without: the cost of a trace to a job that trains.

Start it by `ringtune run -np 2 python -m benchmarks.engine.timeline_cost`. A model with ResNet-50's number of tensors
trains in short steps, then in long ones. Within one launch, blocks of steps with and without a trace take turns
(`start_timeline`, `stop_timeline`). Two neighbours are a pair, whose order alternates. Rank 0 prints medians over the
pairs and their 95 % intervals.

- mean step: the time that the job's user waits for;
- median step: the time of most steps; the trace's writer wakes ten times per second, so not every short step meets it;
- processor: the time of all threads of a rank, the engine's and the writer's included, mean of the ranks.
"""

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import ringtune.torch as hvd
from ringtune.measuring.bench.paired_ratios import MIN_PAIRS, paired_ratio

WIDTH = 64
TENSORS = 161  # those of ResNet-50: layers of weight and bias, and the head's weight
CLASSES = 10


@dataclass(frozen=True)
class StepLoad:
    """Computation of a step, and steps of a block: it lasts over a second, ten wakings of the trace's writer."""

    name: str
    batch_size: int
    block_steps: int


LOADS = (StepLoad("short steps", 32, 100), StepLoad("long steps", 1200, 30))
WARMUP_STEPS = 20


@dataclass(frozen=True)
class TimedBlock:
    """Milliseconds per step of one block."""

    mean_step: float
    median_step: float
    processor: float


class Trainer:
    """A model of many small tensors, on fixed data of this rank."""

    def __init__(self, batch_size: int) -> None:
        layers = [layer for _ in range(TENSORS // 2) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        model = nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES, bias=False))
        self._model = model
        self._inputs = torch.randn(batch_size, WIDTH)
        self._labels = torch.randint(CLASSES, (batch_size,))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        self._optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    def step(self) -> None:
        """Train one step."""
        self._optimizer.zero_grad()
        nn.functional.cross_entropy(self._model(self._inputs), self._labels).backward()
        self._optimizer.step()

    def block(self, steps: int) -> TimedBlock:
        """Train a block of steps and return its times."""
        self.step()  # the ranks leave a change of the timeline at different times
        processor_start_s, times_s = time.process_time(), [time.perf_counter()]
        for _ in range(steps):
            self.step()
            times_s.append(time.perf_counter())
        processor_s = torch.tensor((time.process_time() - processor_start_s) / steps, dtype=torch.float64)
        steps_ms = [(after - before) * 1e3 for before, after in itertools.pairwise(times_s)]
        processor_ms = hvd.allreduce(processor_s, name="processor").item() * 1e3
        return TimedBlock(mean(steps_ms), median(steps_ms), processor_ms)


def turns(pairs: int) -> Iterator[bool]:
    """Yield whether a block is traced: off, on, on, off, off, on, ..."""
    for pair in range(pairs):
        yield from (False, True) if pair % 2 == 0 else (True, False)


def measure(trainer: Trainer, load: StepLoad, pairs: int, trace: Path) -> Mapping[bool, list[TimedBlock]]:
    """Return the blocks by whether they were traced, one of each per pair."""
    blocks: dict[bool, list[TimedBlock]] = {False: [], True: []}
    for _ in range(WARMUP_STEPS):
        trainer.step()
    for is_traced in turns(pairs):
        if is_traced:
            hvd.start_timeline(str(trace))
        blocks[is_traced].append(trainer.block(load.block_steps))
        hvd.stop_timeline()
    return blocks


def add_rows(table: Table, load: StepLoad, blocks: Mapping[bool, list[TimedBlock]]) -> None:
    """Add a row per way to measure."""
    for field in ("mean_step", "median_step", "processor"):
        off, on = ([getattr(block, field) for block in blocks[is_traced]] for is_traced in (False, True))
        ratio = paired_ratio(on, off)
        cells = [f"{median(off):.2f}", f"{median(on):.2f}", f"{ratio.median:.3f}", str(ratio)]
        table.add_row(load.name, field.replace("_", " "), *cells)


def summary_of(trace: Path) -> str:
    """Return the events of rank 0's last trace; dropped events would make the trace too cheap."""
    events = json.loads(trace.read_text(encoding="utf-8"))
    dropped = next(event["args"]["dropped_events"] for event in events if event.get("name") == "timeline_stopped")
    return f"rank 0's last trace: {len(events)} events, {trace.stat().st_size / 1e6:.1f} MB, {dropped} dropped"


def main() -> None:
    """Measure on every rank; print on rank 0."""
    parser = argparse.ArgumentParser(description="Time steps with the timeline and without.")
    parser.add_argument("--pairs", type=int, default=30, help=f"of blocks, at least {MIN_PAIRS}")
    arguments = parser.parse_args()
    if arguments.pairs < MIN_PAIRS:
        parser.error(f"there must be at least {MIN_PAIRS} pairs, for an interval")
    torch.set_num_threads(1)
    hvd.init()
    table = Table("", "ms per step", "off", "on", "on ÷ off", "95 %", title=f"{hvd.size()} ranks, {TENSORS} tensors")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        for load in LOADS:
            add_rows(table, load, measure(Trainer(load.batch_size), load, arguments.pairs, trace))
        summary = summary_of(trace) if hvd.rank() == 0 else ""
    if hvd.rank() == 0:
        console = Console()
        console.print(table)
        console.print(summary)
    hvd.shutdown()


if __name__ == "__main__":
    main()
