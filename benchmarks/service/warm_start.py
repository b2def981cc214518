# SPDX-License-Identifier: Apache-2.0
"""How near to the best does a second job come in few samples, with what the first one told the service?

Start it by `python -m benchmarks.service.warm_start`. On the real engine, with a real service: a first job of two ranks
tunes with a whole budget; a second with the same key and a third of another layout tune with a small one. Each one's
best config is then measured against that of a long search without a service, in launches with fixed knobs that take
turns. A poor baseline (`AUTOTUNE_BASELINE`) leaves something to find.
"""

import argparse
import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from ringtune.tuner import Phase, default_config
from ringtune.tuner.log_reader import RunLog, read_log
from ringtune.variables import knob_variable

from .launching import launched
from .server import serving

POOR_BASELINE = "fusion_bytes=0,cycle_ms=5"
LONG, SAME_KEY, OTHER_LAYOUT = 20, 5, 10
"""Samples."""


@dataclass(frozen=True)
class Tuned:
    """A job that has tuned: how many samples it took, what it found best, and what it began with."""

    samples: int
    best: Mapping[str, Any]
    first_designer: str


def tuned(ranks: int, samples: int, steps: int, folder: Path, variables: Mapping[str, str]) -> Tuned:
    """Launch a job that tunes with a budget of samples."""
    log = folder / f"{random.getrandbits(64):x}.jsonl"
    tuning = {
        "AUTOTUNE": "1",
        "AUTOTUNE_LOG": str(log),
        "AUTOTUNE_MAX_SAMPLES": str(samples),
        "AUTOTUNE_BASELINE": POOR_BASELINE,
        "AUTOTUNE_WARMUP_STEPS": "20",
        "AUTOTUNE_STEPS_PER_SAMPLE": "20",
    }
    launched(ranks, steps, {**tuning, **variables})
    run = read_log(log).runs[0]
    searched = [sample for sample in run.samples if sample.phase == Phase.SEARCH and sample.valid]
    if run.result is None or not searched:
        raise RuntimeError(f"{steps} steps were too few for {samples} samples; give more --steps")
    first = run.suggestions[0].designer if run.suggestions else "none"
    return Tuned(len({sample.trial_id for sample in searched}), _best(run), first)


def _best(run: RunLog) -> Mapping[str, Any]:
    """Return the config with the shortest median step over its windows."""
    times: dict[int, list[float]] = {}
    configs: dict[int, Mapping[str, Any]] = {}
    for sample in run.samples:
        if sample.valid and sample.phase != Phase.WARMUP and sample.step_ms["median"] is not None:
            times.setdefault(sample.trial_id, []).append(sample.step_ms["median"])
            configs[sample.trial_id] = sample.config
    return configs[min(times, key=lambda trial_id: median(times[trial_id]))]


def compared(ranks: int, steps: int, rounds: int, configs: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return each config's step time over that of `best`, the median over rounds."""
    measured: dict[str, list[float]] = {name: [] for name in configs}
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    for _ in range(rounds):
        for name in order.sample(list(configs), len(configs)):
            fixed = {knob_variable(knob): _word(value) for knob, value in configs[name].items()}
            measured[name].append(float(launched(ranks, steps, fixed)["median_step_ms"]))
    alone = measured["best"]
    return {
        name: median(one / best for one, best in zip(found, alone, strict=True)) for name, found in measured.items()
    }


def _word(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6000, help="of a job that tunes")
    parser.add_argument("--rounds", type=int, default=5, help="of the comparison")
    parser.add_argument("--compared-steps", type=int, default=1500)
    parser.add_argument("--other-ranks", type=int, default=3)
    arguments = parser.parse_args()
    table = Table("job", "began with", "samples", "step over the best's, %", "the default's, %")
    with tempfile.TemporaryDirectory(prefix="ringtune-bench-") as name:
        folder = Path(name)
        with serving(f"sqlite:///{folder / 'ringtune.db'}", folder, {}) as server:
            told = {"AUTOTUNE_SERVICE_URL": f"http://127.0.0.1:{server.port}"}
            first = tuned(2, LONG, arguments.steps, folder, told)
            jobs = {
                "same key": (2, tuned(2, SAME_KEY, arguments.steps, folder, {**told, "AUTOTUNE_SEED": "1"})),
                "another layout": (
                    arguments.other_ranks,
                    tuned(arguments.other_ranks, OTHER_LAYOUT, arguments.steps, folder, {**told, "AUTOTUNE_SEED": "2"}),
                ),
            }
        for title, (ranks, job) in jobs.items():
            alone = tuned(ranks, LONG, arguments.steps, folder, {"AUTOTUNE_SEED": "3"})
            configs = {"best": alone.best, "job": job.best, "default": default_config().to_json()}
            if ranks == 2:
                configs["first"] = first.best
            ratios = compared(ranks, arguments.compared_steps, arguments.rounds, configs)
            best = min(ratio for name, ratio in ratios.items() if name in {"best", "first"})
            figures = [f"{100 * (ratios[name] / best - 1):+.1f}" for name in ("job", "default")]
            table.add_row(f"{title}, {ranks} ranks", job.first_designer, str(job.samples), *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
