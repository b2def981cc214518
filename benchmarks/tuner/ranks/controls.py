# SPDX-License-Identifier: Apache-2.0
"""One launch of a control: train and tune the digits, and measure the gain of a coarse grid in the same launch.

`benchmarks.tuner.controls` starts it by `ringtune run` with `AUTOTUNE=0`. It drives the tuning run itself, so that the
same engine can be measured afterwards.
"""

import argparse
import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
from torch import nn

import ringtune.torch as hvd
from digits import BATCH_SIZE, DEPTH, WIDTH, Digits, residual_mlp
from ringtune._engine import allreduce_algorithms
from ringtune.session.session import SESSION
from ringtune.tuner import (
    DEFAULT_DESIGNER,
    Config,
    Phase,
    Result,
    RunSettings,
    SearchSpace,
    SilentObserver,
    Target,
    TuningRun,
    Window,
    WindowSpec,
    make_designer,
    open_log,
    search_space,
)
from ringtune.tuner.policy.measuring import Meter, Order
from ringtune.tuning.engine.target import EngineTarget
from training import Budget, Training

KIB = 1024
MIB = 1024 * KIB
GRID = {
    "fusion_bytes": (0, 256 * KIB, 1 * MIB, 8 * MIB, 64 * MIB),
    "cycle_ms": (0.1, 1.0, 5.0, 20.0),
    "response_cache": (True, False),
}
GRID_STEPS = 15
FINAL_ROUNDS = 24
FINAL_STEPS = 25


@dataclass(frozen=True)
class GridGain:
    """Median step times, measured in turn after the grid, and the tuner's share of the grid's gain."""

    baseline_ms: float
    chosen_ms: float
    best_ms: float
    best: dict[str, bool | int | float | str]


@dataclass
class InertEngine:
    """A target whose knobs have no effect: every config is the baseline, with the real engine's noise."""

    target: Target

    @property
    def name(self) -> str:
        """The target's name, marked."""
        return f"inert {self.target.name}"

    def space(self) -> SearchSpace:
        """Return the real search space."""
        return self.target.space()

    def baseline(self) -> Config:
        """Return the real baseline."""
        return self.target.baseline()

    def apply(self, config: Config) -> int:
        """Switch all ranks to the baseline again, for any config."""
        del config
        return self.target.apply(self.baseline())

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield the real windows."""
        return self.target.windows(spec)


class Control:
    """Rank 0's part, in a thread of its own beside training."""

    def __init__(self, target: Target, arguments: argparse.Namespace) -> None:
        self._target = target
        self._arguments = arguments
        self._thread = threading.Thread(target=self._run, name="tuner control", daemon=True)
        self._thread.start()

    @property
    def is_finished(self) -> bool:
        """True once everything was measured, or measuring failed."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        settings = RunSettings(
            max_samples=self._arguments.max_samples,
            steps_per_sample=self._arguments.steps_per_sample,
            seed=self._arguments.seed,
        )
        designer = make_designer(DEFAULT_DESIGNER, self._target.space(), settings.seed)
        result = TuningRun(self._target, designer, settings, open_log(None), SilentObserver()).run()
        gain = None if self._arguments.inert else measure_grid(self._target, result)
        outcome = {
            "adopted": result.adopted,
            "verdict": result.verdict,
            "speedup": result.speedup,
            "seconds": result.seconds,
            "cost_s": result.cost_s,
            "config": result.config.to_json(),
            "grid": None if gain is None else asdict(gain),
        }
        self._arguments.report.write_text(json.dumps(outcome, indent=2) + "\n", encoding="utf-8")


def measure_grid(target: Target, result: Result) -> GridGain:
    """Find the grid's best cell, then measure it, the baseline and the chosen config in turn."""
    meter = Meter(target, lambda _sample: None)

    def step_ms(config: Config, steps: int) -> float:
        return meter.measure(Order(config, 0, Phase.WATCH, steps)).step_times.median

    values = itertools.product(*GRID.values())
    cells = [result.baseline.replace(dict(zip(GRID, cell, strict=True))) for cell in values]
    best = min(cells, key=lambda cell: step_ms(cell, GRID_STEPS))
    contenders = (result.baseline, result.config, best)
    rounds = [[step_ms(config, FINAL_STEPS) for config in contenders] for _ in range(FINAL_ROUNDS)]
    baseline_ms, chosen_ms, best_ms = (median(column) for column in zip(*rounds, strict=True))
    return GridGain(baseline_ms, chosen_ms, best_ms, best.to_json())


def engine_target() -> EngineTarget:
    """Return this rank's engine as a target whose search space and baseline come from the environment."""
    world = SESSION.require()
    settings = world.settings
    space = search_space(settings.fixed, settings.baseline, algorithms=allreduce_algorithms())
    return EngineTarget(world.engine, space, settings.baseline, threading.Event())


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description="One launch of a control of the tuner; see tuner_controls.")
    parser.add_argument("--inert", action="store_true", help="knobs that do nothing; no grid")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-samples", type=int, default=20)
    parser.add_argument("--steps-per-sample", type=int, default=35, help="steps of a window, about a second")
    parser.add_argument("--report", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    """Train on this rank until rank 0 has measured everything."""
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    hvd.init()
    model = residual_mlp(WIDTH, DEPTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    training = Training(model, optimizer, nn.functional.cross_entropy)
    training.synchronize_start()
    target: Target = InertEngine(engine_target()) if arguments.inert else engine_target()
    control = Control(target, arguments) if hvd.rank() == 0 else None
    digits = Digits.load()
    training.run(
        lambda epoch: digits.batches(arguments.seed, epoch, BATCH_SIZE),
        Budget(epochs=0, waits_for_tuner=True),
        is_tuned=lambda: hvd.broadcast_object(control is not None and control.is_finished, root_rank=0),
    )
    hvd.shutdown()


if __name__ == "__main__":
    main()
