# SPDX-License-Identifier: Apache-2.0
"""Warm start: distance of a second job from the best config after few samples, with the first job's results.

Start it by `python -m benchmarks.service.warm_start`. On the real engine with a real service, a first job of two ranks
tunes with a whole budget. A second job with the same key, a third with another layout, and two jobs without the service
tune with a small budget. One more launch per layout measures their configs beside those of long searches, in windows
that take turns. A poor baseline (`AUTOTUNE_BASELINE`) leaves a gain to find.

One half of the rounds chooses the best config, the other half compares: the same rounds for both would favour the
luckiest config (winner's curse).
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from rich.console import Console
from rich.table import Table

from ringtune.tuner import Phase, default_config
from ringtune.tuner.logs.reader import read_log
from ringtune.tuner.statistics.paired_test import Interval, Pair, speedup_interval

from .engine_jobs.launching import launched
from .load.server import serving

PROGRAM = "benchmarks.service.ranks.tuned"
POOR_BASELINE = "fusion_bytes=0,cycle_ms=5"
LONG, SAME_KEY, OTHER_LAYOUT = 20, 5, 10
"""Samples."""
RANKS, OTHER_RANKS = 2, 3
FILE_WIDTH = 200
"""Columns of a table that goes into a file."""
MOST_STEPS = 20_000
"""A job ends when its tuner has decided, long before."""


@dataclass(frozen=True)
class TunedJob:
    """A job that has tuned.

    Attributes:
        samples: Configs that its search tried.
        began_with: Source of the first config.
        config: The config in the end.
        verdict: The tuner's reason.
    """

    samples: int
    began_with: str
    config: Mapping[str, Any]
    verdict: str


def tuned(ranks: int, samples: int, folder: Path, variables: Mapping[str, str]) -> TunedJob:
    """Launch a job that tunes with a budget of samples.

    Raises:
        RuntimeError: If it came to no decision.
    """
    log = folder / f"{random.getrandbits(64):x}.jsonl"
    tuning = {
        "AUTOTUNE": "1",
        "AUTOTUNE_LOG": str(log),
        "AUTOTUNE_MAX_SAMPLES": str(samples),
        "AUTOTUNE_BASELINE": POOR_BASELINE,
        "AUTOTUNE_WARMUP_STEPS": "20",
        "AUTOTUNE_STEPS_PER_SAMPLE": "20",
        "XDG_CACHE_HOME": str(folder),
    }
    launched(ranks, PROGRAM, ("tune", str(MOST_STEPS)), {**tuning, **variables})
    run = read_log(log).runs[0]
    if run.result is None:
        raise RuntimeError(f"{MOST_STEPS} steps were too few for {samples} samples; the log is {log}")
    searched = {sample.trial_id for sample in run.samples if sample.phase == Phase.SEARCH}
    first = run.suggestions[0].designer if run.suggestions else "none"
    verdict = "no paired test" if run.adoption is None else run.adoption.verdict
    return TunedJob(len(searched), first, run.result.config, verdict)


def compared(
    ranks: int, configs: Mapping[str, Mapping[str, Any]], rounds: int, window_ms: float
) -> dict[str, Sequence[float]]:
    """Return each config's median step time in milliseconds, of each round, all measured in one launch."""
    task = json.dumps({"configs": configs, "rounds": rounds, "window_ms": window_ms})
    found: dict[str, Sequence[float]] = launched(ranks, PROGRAM, ("compare", task), {})
    return found


def beside_the_best(found: Mapping[str, Sequence[float]], name: str) -> tuple[str, Interval]:
    """Return which config is best in the even rounds, and by how much another one's step is longer in the odd ones."""
    best = min(found, key=lambda each: geometric_mean(found[each][::2]))
    return best, speedup_interval(list(map(Pair, found[name][1::2], found[best][1::2])), confidence=0.95)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="rounds of the comparison")
    parser.add_argument("--window-ms", type=float, default=300.0, help="duration of each config in a round")
    parser.add_argument("--other-ranks", type=int, default=OTHER_RANKS)
    arguments = parser.parse_args()
    progress = Console(stderr=True)
    table = Table("job", "began with", "samples", "decision", "best", "its step over the best's", "the default's")
    with tempfile.TemporaryDirectory(prefix="ringtune-bench-") as name:
        folder = Path(name)
        with serving(f"sqlite:///{folder / 'ringtune.db'}", folder, {}) as server:
            service = {"AUTOTUNE_SERVICE_URL": f"http://127.0.0.1:{server.port}"}
            first = tuned(RANKS, LONG, folder, service)
            progress.print(f"first job: {first}")
            jobs = {
                "same key": (RANKS, SAME_KEY, {**service, "AUTOTUNE_SEED": "1"}),
                "another layout": (arguments.other_ranks, OTHER_LAYOUT, {**service, "AUTOTUNE_SEED": "2"}),
                "same key, no service": (RANKS, SAME_KEY, {"AUTOTUNE_SEED": "1"}),
                "another layout, no service": (arguments.other_ranks, OTHER_LAYOUT, {"AUTOTUNE_SEED": "2"}),
            }
            ended: dict[int, dict[str, TunedJob]] = {}
            for title, (ranks, samples, variables) in jobs.items():
                ended.setdefault(ranks, {})[title] = tuned(ranks, samples, folder, variables)
                progress.print(f"{title}: {ended[ranks][title]}")
        for ranks, of_layout in ended.items():
            alone = {f"long search {seed}": tuned(ranks, LONG, folder, {"AUTOTUNE_SEED": str(seed)}) for seed in (3, 4)}
            known = {**of_layout, **alone, **({"first job": first} if ranks == RANKS else {})}
            configs = {title: job.config for title, job in known.items()} | {"default": default_config().to_json()}
            found = compared(ranks, configs, arguments.rounds, arguments.window_ms)
            for title, job in of_layout.items():
                best, over = beside_the_best(found, title)
                row = (f"{title}, {ranks} ranks", job.began_with, str(job.samples), job.verdict, best)
                table.add_row(*row, _percent(over), _percent(beside_the_best(found, "default")[1]))
    Console(width=None if sys.stdout.isatty() else FILE_WIDTH).print(table)


def _percent(interval: Interval) -> str:
    return f"{interval.speedup:+.1%} ({interval.low:+.1%} to {interval.high:+.1%})"


if __name__ == "__main__":
    main()
