# SPDX-License-Identifier: Apache-2.0
"""Gain of tuning FSDP2 on Gloo: pairs of launches, untuned and tuned, in random order within the pair.

    python -m benchmarks.tuner.sharded_training --pairs 10

Each launch trains the same model on the same rows. Its step time is the median of its last steps, when the tuner has
decided. The gain is the geometric mean over the pairs of untuned over tuned, less 1, with a two-sided 90 % interval by
Student's t. A pair whose weights differ is an error.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks.tuner.ranks.sharded import ShardedTask
from ringtune.tuner.statistics.student_t import student_t_quantile

RANK_PROGRAM = "benchmarks.tuner.ranks.sharded"
LIMIT_S = 600.0
LEVEL = 0.90


def launch(task: ShardedTask, ranks: int, folder: Path) -> dict[str, Any]:
    """Run one job to its end and return the measurements of its rank 0.

    Raises:
        SystemExit: If a rank fails.
    """
    store = folder / f"store.{len(list(folder.iterdir()))}"
    environ = {**os.environ, "AUTOTUNE_CACHE": "0", "AUTOTUNE_LOCK": "0"}
    commands = [
        [sys.executable, "-m", RANK_PROGRAM, str(rank), str(ranks), str(store), task.to_argument()]
        for rank in range(ranks)
    ]
    jobs = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for command in commands]
    try:
        outputs = [job.communicate(timeout=LIMIT_S)[0] for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    if any(job.returncode for job in jobs):
        raise SystemExit(f"a rank failed: exit codes {[job.returncode for job in jobs]}")
    outcome: dict[str, Any] = json.loads(outputs[0].splitlines()[-1])
    return outcome


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Return the geometric mean of ratios and the ends of its interval."""
    logs = [math.log(ratio) for ratio in ratios]
    margin = student_t_quantile(len(logs) - 1, 0.5 + LEVEL / 2) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(fmean(logs)), math.exp(fmean(logs) - margin), math.exp(fmean(logs) + margin)


def percent(ratio: float) -> str:
    """Return a ratio as a gain."""
    return f"{100 * (ratio - 1):+.1f} %"


def show(name: str, ratios: Sequence[float]) -> None:
    """Print one line of the summary."""
    mean, low, high = interval(ratios)
    print(
        f"{name}: {percent(mean)} ({100 * LEVEL:.0f} % interval {percent(low)} to {percent(high)}, {len(ratios)} pairs)"
    )


def main() -> None:
    """Launch the pairs and print their gains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--width", type=int, default=256, help="features of a layer")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=300, help="steps before the timed ones")
    parser.add_argument("--timed-steps", type=int, default=60)
    arguments = parser.parse_args()
    order = random.Random(0)  # noqa: S311  (an order, no secret)
    task = ShardedTask(False, arguments.width, arguments.layers, arguments.steps, arguments.timed_steps, 0)
    steps, totals = [], []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(arguments.pairs):
            tasks = [replace(task, is_tuned=is_tuned, seed=pair) for is_tuned in (False, True)]
            order.shuffle(tasks)
            found = {each.is_tuned: launch(each, arguments.ranks, Path(folder)) for each in tasks}
            if found[True]["weights"] != found[False]["weights"]:
                raise SystemExit("the weights of a pair differ")
            steps.append(found[False]["step_ms"] / found[True]["step_ms"])
            totals.append(found[False]["total_s"] / found[True]["total_s"])
            shown = f"{found[False]['step_ms']:.1f} ms untuned, {found[True]['step_ms']:.1f} ms tuned"
            print(f"pair {pair + 1}: {shown}, {found[True]['config']}", flush=True)
    show("steps per second after the decision", steps)
    show("whole launches, the search included", totals)


if __name__ == "__main__":
    main()
