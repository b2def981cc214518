# SPDX-License-Identifier: Apache-2.0
"""Ablation of the policy: regret, safety and cost with one rule off at a time, in the default mode.

`python -m benchmarks.regret --ablate` runs it, on eight problems that differ in kind, network and noise. Every variant
meets the same seeds as the policy as it is, so that differences are paired.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table
from threadpoolctl import threadpool_limits

from ringtune.errors import ConfigError
from ringtune.tuner import Config, RunSettings, SearchSpace, SilentObserver, TuningRun, open_log
from ringtune.tuner.designers.gp import GaussianProcessDesigner
from ringtune.tuner.gp.process import GaussianProcess
from ringtune.tuner.policy.settings import job_limits
from ringtune.tuner.policy_numbers import POLICY, Policy
from ringtune.tuner.priors import Prior

from .priors import cost_model
from .problems import Sources, all_problems
from .time_account import TimeAccount

PROBLEMS = (
    "bert_base_64x8_25gbit",
    "manysmall_64x8_100gbit",
    "resnet50_8x8_25gbit_poor",
    "mobilenet_v2_np4_crowded",
    "recorded_mobilenet_v2_2x2_1gbit",
    "horovod_resnet50_np2_mpi",
    "horovod_mobilenet_v2_2x2_1gbit_gloo",
    "pico_leonardo_2048x1_8192KiB",
)
"""Problems of the ablation: three simulated, two recorded, three public."""
WORSE = 0.01
"""A decision is unsafe that leaves the job slower than its baseline by more than this fraction."""
NEVER = 1_000_000
HEADINGS = (
    "rule off",
    "regret, %",
    "difference, points",
    "other picks",
    "unsafe",
    "steps",
    "s",
    "slow-down, %",
    "CPU, s",
)


class WithoutInitialDesign(GaussianProcessDesigner):
    """The model chooses from the first sample on."""

    def _initial_config(self, tried: set[Config]) -> Config | None:
        del tried
        return None


class WithoutRepeats(GaussianProcessDesigner):
    """No measured config is suggested again."""

    def _most_valuable(self, process: GaussianProcess) -> Config:
        return self._most_promising(process)


class TrustingDesigner(GaussianProcessDesigner):
    """The first prior is believed, whatever the samples' evidence is."""

    def _alternatives(self) -> tuple[Prior | None, ...]:
        return (*self._priors, None)[:1]


DesignerMaker = Callable[[SearchSpace, int, Sequence[Prior]], GaussianProcessDesigner]


@dataclass(frozen=True)
class Variant:
    """The policy with one rule off.

    Attributes:
        policy: Its numbers.
        designer: Its designer.
    """

    policy: Policy = POLICY
    designer: DesignerMaker = GaussianProcessDesigner


def _with(**numbers: float) -> Variant:
    return Variant(replace(POLICY, **numbers))  # type: ignore[arg-type]  # counts are whole numbers


AS_IT_IS = "as it is"
VARIANTS: Mapping[str, Variant] = {
    AS_IT_IS: Variant(),
    "no initial design": Variant(designer=WithoutInitialDesign),
    "no repeats by the knowledge gradient": Variant(designer=WithoutRepeats),
    "no evidence: the first prior is believed": Variant(designer=TrustingDesigner),
    "windows as long as noise asks for": _with(window_share=1.0),
    "no coarse windows": _with(coarse_error=1e-6),
    "windows of 10 steps at least": _with(least_window_steps=10),
    "no cut of slow windows": _with(cut_factor=math.inf),
    "one window of the baseline": _with(baseline_windows=1),
    "baseline not measured again": _with(baseline_every=NEVER),
    "no patience": _with(patience=1),
    "search to the end of the budget": _with(least_value=-1.0, late_value=-1.0),
    "no higher value in the second half": _with(late_value=POLICY.least_value),
    "no least gain before a test": _with(least_gain=0.0),
    "no limit of exploration": _with(exploration_share=math.inf),
    "no grace of exploration": _with(exploration_grace_s=0.0),
    "no share kept for the test": _with(test_share=0.0),
    "windows of the test as long as two pairs fit": _with(test_pairs=2),
    "noise of windows unknown before the test": _with(noise_weight=0.01),
    "no early end of a test": _with(early_error=1e-12, futility_pairs=NEVER),
    "no spare in the plan of seconds": _with(planned_share=1.0),
}


@dataclass(frozen=True)
class Run:
    """Outcome of one run.

    Attributes:
        variant: Its name.
        problem: Its name.
        seed: Seed of the run.
        regret: Fraction by which steps of the pick are longer than the shortest.
        loss: Fraction by which they are longer than the baseline's.
        slow_down: Fraction by which steps were longer than the baseline's while tuning.
        steps: Steps that the run took.
        seconds: Simulated seconds that the run took.
        cpu_s: Processor's time of the tuner, seconds.
    """

    variant: str
    problem: str
    seed: int
    regret: float
    loss: float
    slow_down: float
    steps: int
    seconds: float
    cpu_s: float


def run(sources: Sources, variant: str, name: str, seed: int) -> Run:
    """Tune a problem in the default mode with a variant of the policy."""
    rule, problem = VARIANTS[variant], all_problems(sources)[name]
    with threadpool_limits(1):
        began_s = time.process_time()
        target = TimeAccount(problem.target(seed), problem.baseline_ms)
        designer = rule.designer(target.space(), seed, cost_model(problem, seed))
        settings = RunSettings(**job_limits(None, None, None)._asdict(), seed=seed, policy=rule.policy)
        result = TuningRun(target, designer, settings, open_log(None), SilentObserver(), clock=target.clock).run()
        cpu_s = time.process_time() - began_s
    regret, loss = problem.regret(result.config), problem.loss(result.config)
    return Run(variant, name, seed, regret, loss, target.slow_down, result.steps, result.seconds, cpu_s)


def ablate(sources: Sources, seeds: range, jobs: int, console: Console) -> Table:
    """Run all variants on all problems and return the table; progress goes to the console.

    Raises:
        ConfigError: If problems are missing, for the public ones need `--data`.
    """
    missing = [name for name in PROBLEMS if name not in all_problems(sources)]
    if missing:
        raise ConfigError(f"the ablation needs the problems {', '.join(missing)}: name the public data by --data DIR")
    tasks = [(sources, variant, name, seed) for seed in seeds for variant in VARIANTS for name in PROBLEMS]
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        runs = list(progress.track(_all(tasks, jobs), len(tasks), description="runs"))
    return table_of(runs)


def _all(tasks: Sequence[tuple[Sources, str, str, int]], jobs: int) -> Iterator[Run]:
    with ProcessPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(run, *task) for task in tasks]):
            yield future.result()


def table_of(runs: Sequence[Run]) -> Table:
    """Return the table: each variant beside the policy as it is, paired by problem and seed."""
    by_variant: dict[str, dict[tuple[str, int], Run]] = {}
    for each in runs:
        by_variant.setdefault(each.variant, {})[each.problem, each.seed] = each
    base = by_variant[AS_IT_IS]
    table = Table(title=f"Policy with one rule off, default mode, {len(base)} runs each", title_justify="left")
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if number else "left")
    for variant in VARIANTS:
        found = by_variant[variant]
        points = [100 * (found[key].regret - base[key].regret) for key in base]
        table.add_row(variant, *_cells(list(found.values()), points if variant != AS_IT_IS else []))
    return table


def _cells(runs: Sequence[Run], points: Sequence[float]) -> tuple[str, ...]:
    """Return the cells of a row; `points` are differences of regret to the policy as it is."""
    return (
        f"{100 * fmean(each.regret for each in runs):.2f}",
        _difference(points),
        str(sum(point != 0 for point in points)),
        str(sum(each.loss > WORSE for each in runs)),
        f"{fmean(each.steps for each in runs):.0f}",
        f"{fmean(each.seconds for each in runs):.0f}",
        f"{100 * fmean(each.slow_down for each in runs):+.1f}",
        f"{fmean(each.cpu_s for each in runs):.2f}",
    )


def _difference(points: Sequence[float]) -> str:
    """Return the mean difference with its standard error, marked where it is no more than two of them."""
    if len(points) < 2:
        return ""
    mean, error = fmean(points), stdev(points) / math.sqrt(len(points))
    return f"{mean:+.2f} ± {error:.2f}" + ("" if abs(mean) > 2 * error else " (within 2 SE)")
