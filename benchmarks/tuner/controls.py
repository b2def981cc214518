# SPDX-License-Identifier: Apache-2.0
"""Controls: the tuner finds a gain that is there, and none where none is.

Three controls on the real engine; each run is a launch of its own. Start them by
`PYTHONPATH=examples python -m benchmarks.tuner.controls`:

- repair: adoptions from a poor baseline, and the share of the gain of an exhaustive coarse grid in the same launch;
- inert: adoptions where no knob has an effect (twice as many runs);
- examples: decisions on the real examples.
"""

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from job import ExampleJob
from ringtune.tuner.review import review_log

Outcome = dict[str, Any]
POOR_BASELINE = "fusion_bytes=0,cycle_ms=20"
TUNING_JOB = "benchmarks/tuner/ranks/controls.py"
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "digits": ("examples/digits.py",),
    "digits, small": ("examples/digits.py", "--small"),
    "text transformer": ("examples/text_transformer.py",),
}
STEPS_PER_SAMPLE = 35  # the demo's: `auto` takes minutes on a noisy machine


def repair(seed: int, folder: Path) -> Outcome:
    """Tune from the poor baseline, then measure the grid in the same launch."""
    variables = {"PYTHONPATH": "examples", "AUTOTUNE_BASELINE": POOR_BASELINE}
    outcome = ExampleJob(TUNING_JOB, ["--seed", str(seed)], variables=variables).run(folder / "repair.json")
    return {"job": "poor baseline", **outcome, "share": share_of_grid(outcome["grid"])}


def inert(seed: int, folder: Path) -> Outcome:
    """Tune knobs that have no effect."""
    job = ExampleJob(TUNING_JOB, ["--seed", str(seed), "--inert"], variables={"PYTHONPATH": "examples"})
    return {"job": "inert knobs", **job.run(folder / "inert.json")}


def example(name: str, seed: int, folder: Path) -> Outcome:
    """Run an example as a user would, and read its log."""
    script, *flags = EXAMPLES[name]
    log = folder / f"{name}-{seed}.jsonl"
    arguments = ["--seed", str(seed), "--train-for-tuner", *flags]
    variables = {
        "AUTOTUNE": "1",
        "AUTOTUNE_LOG": str(log),
        "AUTOTUNE_SEED": str(seed),
        "AUTOTUNE_STEPS_PER_SAMPLE": str(STEPS_PER_SAMPLE),
    }
    ExampleJob(script, arguments, variables=variables).run(folder / "example.json")
    run = review_log(log).runs[-1]
    return {
        "job": name,
        "adopted": run.adopted,
        "verdict": run.verdict,
        "speedup": run.speedup,
        "seconds": run.seconds,
        "cost_s": run.cost_s,
    }


def share_of_grid(grid: Mapping[str, float]) -> float | None:
    """Return the chosen config's gain over the grid's best, in logarithms; None where the grid has no gain."""
    best = math.log(grid["baseline_ms"] / grid["best_ms"])
    return math.log(grid["baseline_ms"] / grid["chosen_ms"]) / best if best > 0 else None


def render(outcomes: Sequence[Outcome], console: Console) -> None:
    """Print every run, then one line per job."""
    table = Table("job", "verdict", "tuning s", "cost s", "of grid's gain")
    for outcome in outcomes:
        cost = "-" if outcome["cost_s"] is None else f"{outcome['cost_s']:.1f}"
        share = _percent(outcome.get("share"))
        table.add_row(outcome["job"], outcome["verdict"], f"{outcome['seconds']:.0f}", cost, share)
    console.print(table)
    for job in dict.fromkeys(outcome["job"] for outcome in outcomes):
        console.print(summary_line(job, [outcome for outcome in outcomes if outcome["job"] == job]))


def summary_line(job: str, runs: Sequence[Outcome]) -> str:
    """Return how often a job's runs ended in adoption, and their share of the grid's gain where it is known."""
    adopted = sum(outcome["adopted"] for outcome in runs)
    shares = [outcome["share"] for outcome in runs if outcome.get("share") is not None]
    line = f"{job}: adopted in {adopted} of {len(runs)}"
    return (
        f"{line}; {_percent(median(shares))} (median) of the grid's gain, lowest {_percent(min(shares))}"
        if shares
        else line
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def run_controls(runs: int, only: str | None, folder: Path) -> list[Outcome]:
    """Run each launch of the controls that were asked for with seeds 0 to runs - 1; the inert one has two launches."""
    launches: Mapping[str, Sequence[Callable[[int, Path], Outcome]]] = {
        "repair": [repair],
        "inert": [inert, lambda seed, folder: inert(seed + runs, folder)],
        "examples": [partial(example, name) for name in EXAMPLES],
    }
    wanted = [launch for control in launches if only in {None, control} for launch in launches[control]]
    return [launch(seed, folder) for launch in wanted for seed in range(runs)]


def main() -> None:
    """Run the given controls and print their outcomes."""
    parser = argparse.ArgumentParser(description="Controls of the tuner on the real engine.")
    parser.add_argument("--runs", type=int, default=10, help="launches per control; the inert one takes twice as many")
    parser.add_argument("--only", choices=("repair", "inert", "examples"), help="one control alone")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_controls(arguments.runs, arguments.only, Path(folder))
    if arguments.json:
        print(json.dumps(outcomes, indent=2))
    else:
        render(outcomes, Console())


if __name__ == "__main__":
    main()
