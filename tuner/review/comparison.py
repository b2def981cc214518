# SPDX-License-Identifier: Apache-2.0
"""Comparison of runs: a table with one row per question and one column per run."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ringtune.system.counts import counted
from ringtune.tuner import readable_cost, readable_value

from . import words
from .analysis import Analysis
from .sensitivity import MATTERS, MAY_MATTER
from .spaces import own_names
from .summary import RunReview

Row: TypeAlias = tuple[str, tuple[str, ...]]
"""Row of the table: a question and the answer for each run."""
Named: TypeAlias = tuple[str, RunReview, Analysis]
NO_ANSWER = "-"


def comparison(runs: Sequence[Named]) -> list[Row]:
    """Return the rows of a table of runs; a row without any answer is left out."""
    rows: list[Row] = [(question, tuple(answer(named) for named in runs)) for question, answer in QUESTIONS]
    names = dict.fromkeys(name for _, run, _ in runs for name in own_names(run))
    rows += [(name, tuple(_chosen(run, name) for _, run, _ in runs)) for name in names]
    return [row for row in rows if set(row[1]) != {NO_ANSWER}]


def _log(named: Named) -> str:
    return named[0]


def _verdict(named: Named) -> str:
    return named[1].verdict.partition(":")[0]


def _speedup(named: Named) -> str:
    _, run, _ = named
    if run.speedup is None or run.ci_low is None or run.ci_high is None:
        return NO_ANSWER
    bounds = f"({words.percent(run.ci_low)} to {words.percent(run.ci_high)}, {words.level(run)})"
    return f"{words.percent(run.speedup)} {bounds}" if run.adopted else f"none shown {bounds}"


def _rates(named: Named) -> str:
    _, run, _ = named
    before, after = run.steps_per_s
    shown = [words.rate(value) for value in (before, after) if value is not None]
    return " to ".join(shown) or NO_ANSWER


def _effort(named: Named) -> str:
    _, run, _ = named
    return f"{run.steps:,} in {run.seconds:.0f} s" if run.seconds else NO_ANSWER


def _cost(named: Named) -> str:
    cost_s = named[1].cost_s
    return NO_ANSWER if cost_s is None else readable_cost(cost_s)


def _payback(named: Named) -> str:
    steps = named[1].payback_steps
    return NO_ANSWER if not steps else counted(steps, "step")


def _configs(named: Named) -> str:
    return str(sum(trial.windows > 0 for trial in named[2].trials))


def _void(named: Named) -> str:
    return str(sum(not sample.valid for sample in named[1].tried))


def _noise(named: Named) -> str:
    noise = named[2].noise
    return NO_ANSWER if noise is None else f"{100 * noise.window:.1f} %"


def _drift(named: Named) -> str:
    drift = named[2].drift
    return NO_ANSWER if drift is None else words.percent(drift.change.fraction)


def _baseline(named: Named) -> str:
    run = named[2].levelled.run
    times = sorted(t for sample in run.windows_of(run.baseline) if (t := sample.log_time) is not None)
    return f"{math.exp(times[len(times) // 2]):.2f} ms" if times and run.has_step_times else NO_ANSWER


def _most(named: Named) -> str:
    """Return the parameter with the largest effect among those that certainly matter."""
    items = named[2].sensitivities
    if not items:
        return NO_ANSWER
    matters = next((item for item in items if item.finding == MATTERS), None)
    if matters is not None:
        return f"{matters.name} ({words.percent(matters.effect.fraction)})"
    return MAY_MATTER if any(item.finding == MAY_MATTER for item in items) else "none of them"


def _chosen(run: RunReview, name: str) -> str:
    return NO_ANSWER if run.chosen is None else readable_value(name, run.chosen.get(name))


QUESTIONS: tuple[tuple[str, Callable[[Named], str]], ...] = (
    ("log", _log),
    ("verdict", _verdict),
    ("speed-up", _speedup),
    ("steps per second", _rates),
    ("steps measured", _effort),
    ("cost", _cost),
    ("pays back after", _payback),
    ("configs tried", _configs),
    ("void windows", _void),
    ("baseline", _baseline),
    ("noise", _noise),
    ("drift of speed", _drift),
    ("mattered most", _most),
)
