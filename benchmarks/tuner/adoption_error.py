# SPDX-License-Identifier: Apache-2.0
"""Error rate and power of the adoption test where few windows show how noisy a machine is.

Start it by `python -m benchmarks.tuner.adoption_error` (five minutes). No engine runs: windows are drawn, of which the
steps scatter as told, and which differ beyond that by `--window-std`; or, with `--replay`, windows of the baseline of
recorded surfaces and public tables, of which some scatter by more than others. The baseline has `--baselines` windows
before the test, as a search under a budget of steps leaves it. Each cell is the share of tests that adopt: of
challengers that gain nothing, and of those that gain `--gain`.
"""

import argparse
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ringtune.tuner import Config, Phase, Sample, Trial, Window, WindowSpec
from ringtune.tuner.statistics.pair_noise import MOST_WEIGHT, PairNoise, expected_pair_noise
from ringtune.tuner.statistics.paired_test import Pair, PairedTest
from ringtune.tuner.statistics.step_noise import Scatter

from .regret.problem import Problem
from .regret.problems import SURFACES, Sources, problems_of

Array = NDArray[np.float64]

SEARCHED = 5
"""Samples of other configs, which show how much steps scatter."""
STEP_MS = 20.0
FILE_WIDTH = 140
"""Columns of a table that goes into a file."""


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="tests of each kind")
    parser.add_argument("--gain", type=float, default=0.05, help="gain of a challenger that is faster, a fraction")
    parser.add_argument(
        "--step-std", type=float, default=0.03, help="standard deviation of ln(step time) between steps"
    )
    parser.add_argument("--steps", type=int, default=10, help="steps of a window")
    parser.add_argument("--window-std", type=float, nargs="+", default=[0.003, 0.008, 0.02, 0.03])
    parser.add_argument("--baselines", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--pairs", type=int, nargs="+", default=[2, 3, 5, 12], help="at most, ascending")
    parser.add_argument("--weight", type=int, help="weight of the evidence before the test, in pairs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--replay", choices=("recorded", "public"), nargs="+", default=[], help="noise that was measured"
    )
    parser.add_argument("--surfaces", type=Path, default=SURFACES, metavar="DIR", help="recorded surfaces")
    parser.add_argument("--data", type=Path, metavar="DIR", help="public measurements: surfaces/, collectives/")
    return parser.parse_args()


class NoisyMachine(ABC):
    """Windows of a machine on which configs take as long as is said, but for noise."""

    @abstractmethod
    def windows(self, count: int, gain: float = 0.0) -> Array:
        """Return the step times of windows of a config that is faster by so much, as ln; shape (count, steps), ms."""

    def trials(self, baselines: int) -> list[Trial]:
        """Return what a search has measured: the baseline so often, and others once each."""
        numbers = [0] * baselines + list(range(1, 1 + SEARCHED))
        samples: dict[int, list[Sample]] = {}
        for number, sample in zip(numbers, self._samples(numbers), strict=True):
            samples.setdefault(number, []).append(sample)
        return [Trial(number, of[0].config, tuple(of)) for number, of in samples.items()]

    def pairs(self, count: int, gain: float, trials: Sequence[Trial]) -> list[Pair]:
        """Return windows of the baseline and of a challenger, weighed by what the samples before them tell, too."""
        scatter = Scatter.of(trials)
        baselines, challengers = self._samples([0] * count), self._samples([1] * count, gain)
        return [Pair.of(*pair, scatter) for pair in zip(baselines, challengers, strict=True)]

    def _samples(self, numbers: Sequence[int], gain: float = 0.0) -> list[Sample]:
        """Return a window of each of the numbered trials."""
        windows = self.windows(len(numbers), gain).tolist()
        return [
            Sample.from_window(
                Window(0, tuple(step_ms), 1, 1), trial_id=number, config=Config({"trial": number}), phase=Phase.SEARCH
            )
            for number, step_ms in zip(numbers, windows, strict=True)
        ]


class SimulatedMachine(NoisyMachine):
    """One whose windows scatter evenly, and differ beyond that."""

    def __init__(self, rng: np.random.Generator, steps: int, step_std: float, window_std: float) -> None:
        """Draw windows of `steps` steps; both deviations are of ln(step time)."""
        self._rng = rng
        self._steps = steps
        self._step_std = step_std
        self._window_std = window_std

    def windows(self, count: int, gain: float = 0.0) -> Array:
        """Return windows as of `Machine`."""
        log_ms = self._rng.normal(-gain, self._window_std, (count, 1))
        drawn: Array = STEP_MS * np.exp(self._rng.normal(log_ms, self._step_std, (count, self._steps)))
        return drawn


class ReplayedMachine(NoisyMachine):
    """One whose windows of the baseline were recorded."""

    def __init__(self, problem: Problem, steps: int, seed: int) -> None:
        """Replay windows of `steps` steps."""
        target = problem.target(seed)
        epoch = target.apply(problem.baseline)
        self._windows = target.windows(WindowSpec(epoch, 0, steps, 0.0))

    def windows(self, count: int, gain: float = 0.0) -> Array:
        """Return windows as of `Machine`."""
        return np.array([next(self._windows).step_ms for _ in range(count)]) * math.exp(-gain)


def adoptions(pairs: Sequence[Pair], expected: PairNoise, limits: Sequence[int]) -> list[bool]:
    """Return whether the challenger is taken where so many pairs are allowed, for each limit."""
    test = PairedTest(expected)
    adopted: list[bool] = []
    for limit in limits:
        while len(test.pairs) < limit and not test.is_plain:
            test.pairs.append(pairs[len(test.pairs)])
        adopted.append(test.is_shown)
    return adopted


def shares(machine: NoisyMachine, arguments: argparse.Namespace, baselines: int) -> Array:
    """Return how often a challenger is adopted that gains nothing, and one that gains; shape (2, limits)."""
    limits = arguments.pairs
    adopted = np.zeros((2, len(limits)))
    for _ in range(arguments.runs):
        trials = machine.trials(baselines)
        expected = expected_pair_noise(trials, arguments.steps)
        if arguments.weight is not None:
            expected = replace(expected, weight=arguments.weight)
        for row, gain in enumerate((0.0, math.log1p(arguments.gain))):
            adopted[row] += adoptions(machine.pairs(max(limits), gain, trials), expected, limits)
    found: Array = adopted / arguments.runs
    return found


def machines(arguments: argparse.Namespace) -> dict[str, NoisyMachine]:
    """Return the machines by name; raises SystemExit where a kind that is asked for has none."""
    if not arguments.replay:
        rng, step_std = np.random.default_rng(arguments.seed), arguments.step_std
        return {
            f"windows differ by {100 * std:g} %": SimulatedMachine(rng, arguments.steps, step_std, std)
            for std in arguments.window_std
        }
    sources = Sources(arguments.surfaces, arguments.data)
    found: dict[str, NoisyMachine] = {}
    for kind in arguments.replay:
        problems = problems_of(sources, kind)
        if not problems:
            raise SystemExit(f"nothing {kind} to replay: " + "; ".join(sources.missing()))
        found |= {name: ReplayedMachine(of, arguments.steps, arguments.seed) for name, of in problems.items()}
    return found


def main() -> None:
    """Simulate all cells and print the table."""
    arguments = parse_arguments()
    table = Table(title=f"Adopted, of those that gain 0 % and {100 * arguments.gain:g} %", title_justify="left")
    for heading in ("machine", "of the baseline", *(f"{pairs} pairs" for pairs in arguments.pairs)):
        table.add_column(heading, justify="right")
    cells_of = list(product(machines(arguments).items(), arguments.baselines))
    for (name, machine), baselines in track(cells_of, "simulating", console=Console(stderr=True)):
        found = shares(machine, arguments, baselines)
        cells = [f"{100 * error:.1f} %, {100 * power:.0f} %" for error, power in found.T]
        table.add_row(name, str(baselines), *cells)
    console = Console(width=None if sys.stdout.isatty() else FILE_WIDTH)
    console.print(table)
    console.print(f"{arguments.runs} tests each; a weight of {arguments.weight or f'up to {MOST_WEIGHT}'}")


if __name__ == "__main__":
    main()
