# SPDX-License-Identifier: Apache-2.0
"""Error rate and power of the adoption test, where few windows show how noisy a machine is.

Start it by `python -m benchmarks.tuner.adoption_error` (five minutes). No engine runs: windows are drawn at random.
Their steps scatter by `--step-std`, and beyond that windows differ by `--window-std`. With `--replay` they are
windows of the baseline of recorded surfaces and public tables, some of which scatter by more than others. The
baseline has `--baselines` windows before the test: three as in the policy, or fewer under a budget of few steps. Each
cell is the share of tests that adopt: first of challengers without a gain, then of those that gain `--gain`.
"""

import argparse
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ringtune.tuner import Config, Phase, Sample, Trial, Window, WindowSpec
from ringtune.tuner.statistics.noise import WindowNoise
from ringtune.tuner.statistics.paired_test import LEAST_PAIRS, NoisePrior, Pair, PairedTest

from .regret.problem import Problem
from .regret.problems import SURFACES, Sources, problems_of

Array = NDArray[np.float64]

SEARCHED = 5
"""Other configs that the search has measured, once each; they show how much steps scatter, not how windows differ."""
STEP_MS = 20.0
"""Step time of the baseline without noise, milliseconds."""
FILE_WIDTH = 140
"""Columns of a table that goes into a file."""


def parse_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="tests per cell and kind of challenger")
    parser.add_argument("--gain", type=float, default=0.05, help="gain of the faster challenger, a fraction")
    parser.add_argument("--step-std", type=float, default=0.03, help="standard deviation of ln(step time) of steps")
    parser.add_argument("--steps", type=int, default=10, help="steps per window")
    parser.add_argument(
        "--window-std",
        type=float,
        nargs="+",
        default=[0.003, 0.008, 0.02, 0.03],
        help="standard deviations of ln(step time) between windows, beyond their steps' scatter",
    )
    parser.add_argument("--baselines", type=int, nargs="+", default=[1, 2, 3], help="baseline windows before the test")
    parser.add_argument(
        "--pairs", type=pair_limit, nargs="+", default=[2, 3, 5, 12], help=f"most pairs, ascending; from {LEAST_PAIRS}"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the drawn windows")
    parser.add_argument(
        "--replay", choices=("recorded", "public"), nargs="+", default=[], help="replay measured windows of this kind"
    )
    parser.add_argument("--surfaces", type=Path, default=SURFACES, metavar="DIR", help="recorded surfaces")
    parser.add_argument("--data", type=Path, metavar="DIR", help="public measurements: surfaces/, collectives/")
    return parser.parse_args()


def pair_limit(text: str) -> int:
    """Return a limit of pairs with which the test can decide.

    Raises:
        ArgumentTypeError: If it is below LEAST_PAIRS.
        ValueError: If it is no whole number.
    """
    limit = int(text)
    if limit < LEAST_PAIRS:
        raise argparse.ArgumentTypeError(f"{limit} pairs are too few for a decision, {LEAST_PAIRS} are needed")
    return limit


class NoisyMachine(ABC):
    """A source of noisy windows of configs whose true step time is known."""

    @abstractmethod
    def windows(self, count: int, gain: float = 0.0) -> Array:
        """Return step times of windows of one config, shape (count, steps), ms.

        Args:
            count: Number of windows.
            gain: ln(baseline / config) without noise.
        """

    def trials(self, baselines: int) -> list[Trial]:
        """Return the trials of a search: the baseline with so many windows, and SEARCHED others with one each."""
        numbers = [0] * baselines + list(range(1, 1 + SEARCHED))
        samples: dict[int, list[Sample]] = {}
        for number, sample in zip(numbers, self._samples(numbers), strict=True):
            samples.setdefault(number, []).append(sample)
        return [Trial(number, of[0].config, tuple(of)) for number, of in samples.items()]

    def pairs(self, count: int, gain: float) -> list[Pair]:
        """Return pairs of windows of the baseline and of a challenger that gains so much, as ln."""
        baselines, challengers = self._samples([0] * count), self._samples([1] * count, gain)
        return [Pair(a.typical_ms, b.typical_ms) for a, b in zip(baselines, challengers, strict=True)]

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
    """A machine with normal noise of steps and of windows."""

    def __init__(self, rng: np.random.Generator, steps: int, step_std: float, window_std: float) -> None:
        """Draw windows of `steps` steps; both deviations are of ln(step time)."""
        self._rng = rng
        self._steps = steps
        self._step_std = step_std
        self._window_std = window_std

    def windows(self, count: int, gain: float = 0.0) -> Array:
        """Return windows as of `NoisyMachine`."""
        log_ms = self._rng.normal(-gain, self._window_std, (count, 1))
        drawn: Array = STEP_MS * np.exp(self._rng.normal(log_ms, self._step_std, (count, self._steps)))
        return drawn


class ReplayedMachine(NoisyMachine):
    """A machine whose windows of the baseline were recorded."""

    def __init__(self, problem: Problem, steps: int, seed: int) -> None:
        """Replay windows of `steps` steps."""
        target = problem.target(seed)
        epoch = target.apply(problem.baseline)
        self._windows = target.windows(WindowSpec(epoch, 0, steps, 0.0))

    def windows(self, count: int, gain: float = 0.0) -> Array:
        """Return windows as of `NoisyMachine`."""
        return np.array([next(self._windows).step_ms for _ in range(count)]) * math.exp(-gain)


def expected_noise(trials: Sequence[Trial], steps: int) -> NoisePrior:
    """Return the noise that the adoption test expects of pairs of windows of so many steps, as the policy does."""
    noise = WindowNoise.of(trials)
    return NoisePrior(noise.pair_variance(steps), noise.weight)


def adoptions(pairs: Sequence[Pair], expected: NoisePrior, limits: Sequence[int]) -> list[bool]:
    """Return whether the challenger is adopted, for each limit on the number of pairs; limits ascend."""
    test = PairedTest(expected)
    adopted: list[bool] = []
    for limit in limits:
        while len(test.pairs) < limit and not test.can_end_early:
            test.pairs.append(pairs[len(test.pairs)])
        adopted.append(test.shows_gain)
    return adopted


def shares(machine: NoisyMachine, arguments: argparse.Namespace, baselines: int) -> Array:
    """Return the shares of adopted challengers without a gain, and of those with one; shape (2, limits)."""
    limits = arguments.pairs
    adopted = np.zeros((2, len(limits)))
    for _ in range(arguments.runs):
        expected = expected_noise(machine.trials(baselines), arguments.steps)
        for row, gain in enumerate((0.0, math.log1p(arguments.gain))):
            adopted[row] += adoptions(machine.pairs(max(limits), gain), expected, limits)
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
    table = Table(title=f"Adopted of challengers that gain 0 %, {100 * arguments.gain:g} %", title_justify="left")
    for heading in ("machine", "baseline windows", *(f"{pairs} pairs" for pairs in arguments.pairs)):
        table.add_column(heading, justify="right")
    cells_of = list(product(machines(arguments).items(), arguments.baselines))
    for (name, machine), baselines in track(cells_of, "simulating", console=Console(stderr=True)):
        found = shares(machine, arguments, baselines)
        cells = [f"{100 * error:.1f} %, {100 * power:.0f} %" for error, power in found.T]
        table.add_row(name, str(baselines), *cells)
    console = Console(width=None if sys.stdout.isatty() else FILE_WIDTH)
    console.print(table)
    console.print(f"{arguments.runs} tests each")


if __name__ == "__main__":
    main()
