# SPDX-License-Identifier: Apache-2.0
"""Check that neither the engine nor the tuner changes the result of training.

A single process, two ranks, and two ranks with the tuner learn the digits over several seeds, with equal joined batches
and epochs. Mean accuracies should lie within two standard errors of the single process's:
`PYTHONPATH=examples python -m benchmarks.engine.training_accuracy --runs 5`.
"""

import argparse
import json
import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from job import ExampleJob

JOINED_BATCH = 32
SETUPS: tuple[tuple[str, int, Mapping[str, str]], ...] = (
    ("one process", 1, {}),
    ("two ranks", 2, {}),
    ("two ranks, AUTOTUNE=1", 2, {"AUTOTUNE": "1"}),
)


@dataclass(frozen=True)
class Accuracy:
    """Final test accuracies of one set-up over the seeds, and its distance from the single process."""

    setup: str
    accuracies: Sequence[float]
    mean: float
    difference: float  # mean minus the single process's mean
    two_standard_errors: float  # twice the standard error of that difference
    is_within: bool


def accuracy_of(setup: str, accuracies: Sequence[float], single: Sequence[float]) -> Accuracy:
    """Compare a set-up's accuracies with the single process's."""
    mean = statistics.fmean(accuracies)
    difference = mean - statistics.fmean(single)
    variances = (statistics.variance(values) / len(values) for values in (accuracies, single))
    bound = 2 * math.sqrt(sum(variances))
    return Accuracy(setup, accuracies, mean, difference, bound, abs(difference) <= bound)


def measure(runs: int, epochs: int, folder: Path) -> list[Accuracy]:
    """Train each set-up with seeds 0 to runs - 1 and compare."""
    by_setup: dict[str, list[float]] = {}
    for seed in range(runs):
        for setup, ranks, variables in SETUPS:
            arguments = ["--epochs", str(epochs), "--batch-size", str(JOINED_BATCH // ranks), "--seed", str(seed)]
            report = ExampleJob("examples/digits.py", arguments, ranks, variables).run(folder / "report.json")
            by_setup.setdefault(setup, []).append(report["metrics"]["accuracy"])
    single = by_setup[SETUPS[0][0]]
    return [accuracy_of(setup, accuracies, single) for setup, accuracies in by_setup.items()]


def render(results: Sequence[Accuracy], console: Console) -> None:
    """Print one row per set-up."""
    table = Table("set-up", "mean accuracy", "against one process", "two standard errors", "within", title="Accuracy")
    for result in results:
        difference, bound = f"{result.difference:+.4f}", f"{result.two_standard_errors:.4f}"
        table.add_row(result.setup, f"{result.mean:.4f}", difference, bound, "yes" if result.is_within else "NO")
    console.print(table)


def main() -> int:
    """Run the comparison; 0 when every set-up is within two standard errors."""
    parser = argparse.ArgumentParser(description="Accuracy with and without engine and tuner, at equal joined batch.")
    parser.add_argument("--runs", type=int, default=5, help="seeds, at least 2")
    parser.add_argument("--epochs", type=int, default=60, help="enough for the tuner to finish on the way")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(max(arguments.runs, 2), arguments.epochs, Path(folder))
    if arguments.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        render(results, Console())
    return 0 if all(result.is_within for result in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
