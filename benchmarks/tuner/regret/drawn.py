# SPDX-License-Identifier: Apache-2.0
"""Simulated jobs drawn by a rule, rather than chosen by hand: five questions, four jobs of each.

A question says from which ranges a job is drawn; numbers are drawn evenly on a logarithmic scale. Jobs are drawn one
after another, the draw's number is the seed, and a job is kept if its best config is at least 2 % faster than the
default that ships: otherwise it has no gain to find. A question ends with four jobs, or after twelve draws. `python -m
benchmarks.tuner.regret.drawn` draws them and writes which were kept (results/drawn.csv; some minutes). The simulator
has hosts of one kind and one link each: a slow rank is drawn as noise, links of several rates are not.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ringtune.tuner.simulator import Cluster, Noise, Scenario
from ringtune.tuner.simulator.cluster import DEFAULT_LATENCY_US, Link
from ringtune.tuner.simulator.model_jobs import model_job
from ringtune.tuner.simulator.scenarios import BUSY, LARGE_WORLD, ORDINARY, QUIET

from .optima import optimum_ms
from .problem import FLAT_GAIN
from .simulated import SimulatedProblem

DRAWN = Path(__file__).parent / "results" / "drawn.csv"
KIND = "drawn"
RULE_SEED = 20261129
"""Seed of the rule: the day on which it was written, and run for the first time."""
JOBS = 4
"""Jobs of a question."""
MOST_DRAWS = 12
LARGE = 128
"""Ranks from which some rank is late every few steps."""
UNEVEN = Noise(step=0.03, window=0.006, late_chance=5e-3, late_factor=1.6, drift=0.01)
"""Noise of hosts of which one or another is slow at times."""
MODELS = ("resnet50", "mobilenet_v2", "bert_base", "manysmall")
GBIT_BYTES = 1.25e8
"""Bytes a second of a link of 1 Gbit/s."""


class Ranges(NamedTuple):
    """Ranges from which a question's jobs are drawn: the least and the most of each, both included.

    Attributes:
        models: Names of models.
        hosts: Number of hosts.
        ranks_per_host: Ranks of each host.
        cores_per_rank: Cores of a host over its ranks.
        link_gbit: Rate of a host's link, Gbit/s.
        latency_us: Latency of a link, microseconds.
        noises: Noises of the steps.
    """

    models: Sequence[str] = MODELS
    hosts: tuple[int, int] = (2, 16)
    ranks_per_host: tuple[int, int] = (1, 8)
    cores_per_rank: tuple[float, float] = (2.0, 8.0)
    link_gbit: tuple[float, float] = (10.0, 100.0)
    latency_us: tuple[float, float] = (DEFAULT_LATENCY_US, DEFAULT_LATENCY_US)
    noises: Sequence[Noise] = (QUIET, ORDINARY, BUSY)


QUESTIONS: Mapping[str, Ranges] = {
    "latency": Ranges(latency_us=(50.0, 1000.0)),
    "many_hosts": Ranges(hosts=(16, 128)),
    "slow_links": Ranges(hosts=(2, 8), link_gbit=(0.1, 5.0), noises=(UNEVEN,)),
    "crowded": Ranges(hosts=(1, 4), ranks_per_host=(2, 8), cores_per_rank=(0.25, 1.0)),
    "small_tensors": Ranges(models=("manysmall",), hosts=(1, 32)),
}
"""Ranges by question."""
COMPUTE_MS = (20.0, 300.0)
"""Computing of a step, milliseconds."""


def draw(question: str, number: int) -> Scenario:
    """Return the job of a draw; on crowded hosts, the ranks' computing keeps a core each busy.

    Args:
        question: A name in `QUESTIONS`.
        number: Number of the draw, from 0.
    """
    ranges = QUESTIONS[question]
    rng = np.random.default_rng([RULE_SEED, list(QUESTIONS).index(question), number])

    def between(bounds: tuple[float, float]) -> float:
        return float(np.exp(rng.uniform(*np.log(bounds))))

    model = ranges.models[int(rng.integers(len(ranges.models)))]
    hosts, ranks = round(between(ranges.hosts)), round(between(ranges.ranks_per_host))
    cores = max(1, round(ranks * between(ranges.cores_per_rank)))
    link = Link(GBIT_BYTES * round(between(ranges.link_gbit), 2), round(between(ranges.latency_us), 1))
    noise = ranges.noises[int(rng.integers(len(ranges.noises)))]
    threads = 1.0 if question == "crowded" else 0.0
    job = model_job(model, round(between(COMPUTE_MS), 1), compute_threads=threads)
    name = f"{KIND}_{question}_{number}_{model}_{hosts}x{ranks}"
    return Scenario(name, job, Cluster(hosts, ranks, cores, link), LARGE_WORLD if hosts * ranks >= LARGE else noise)


def gain_of(scenario: Scenario) -> float:
    """Return the fraction by which the best config is faster than the default."""
    target = scenario.target(0)
    return target.step_ms(target.baseline()) / optimum_ms(scenario) - 1.0


def kept_draws(gain: Callable[[Scenario], float] = gain_of) -> Iterator[tuple[str, int, float]]:
    """Yield the question, the number and the gain of each job that is kept."""
    for question in QUESTIONS:
        kept = 0
        for number in range(MOST_DRAWS):
            if kept == JOBS:
                break
            faster = gain(draw(question, number))
            if faster >= FLAT_GAIN:
                kept += 1
                yield question, number, faster


def drawn_problems(path: Path = DRAWN) -> list[SimulatedProblem]:
    """Return the jobs that a file names as problems."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [SimulatedProblem(draw(row["question"], int(row["number"])), kind=KIND) for row in rows]


def main() -> None:
    """Draw the jobs, and write which are kept."""
    with DRAWN.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("question", "number", "gain"))
        for question, number, faster in kept_draws():
            writer.writerow((question, number, f"{faster:.4f}"))
            file.flush()


if __name__ == "__main__":
    main()
