# SPDX-License-Identifier: Apache-2.0
"""Explain the outcome of a tuned job to a newcomer.

Duty: from the review of a tuning log and a job's report to a table and a few sentences. It makes no decision.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ringtune.system.counts import counted
from ringtune.tuner import readable_cost, readable_value
from ringtune.tuner.review import RunReview, review_log
from ringtune.tuner.space.config import Value
from ringtune.tuner.statistics.paired_test import LEAST_PAIRS, Pair, speedup_interval

PINNED_PREFIX = "hierarchical_"  # pinned on one host: rows without news


@dataclass(frozen=True)
class DemoOutcome:
    """One job: its title, the review of its tuning run, and its report."""

    title: str
    log_path: Path
    run: RunReview
    report: Mapping[str, Any]
    note: str = ""

    @classmethod
    def read(cls, title: str, log_path: Path, report: Mapping[str, Any], note: str = "") -> "DemoOutcome":
        """Review the last run of a tuning log; `note` is a remark on the job for a newcomer.

        Raises:
            ValueError: If the log holds no run.
            OSError: If it cannot be read.
        """
        runs = review_log(log_path).runs
        if not runs:
            raise ValueError(f"{log_path} holds no tuning run: was AUTOTUNE=1 set?")
        return cls(title, log_path, runs[-1], report, note)

    @property
    def is_finished(self) -> bool:
        """Return whether the tuning run came to its end."""
        return self.run.is_complete


def render(outcomes: Sequence[DemoOutcome], console: Console, *, seconds: float) -> None:
    """Print one panel per job and how long all of them took."""
    console.rule("[bold]what came of it")
    for number, outcome in enumerate(outcomes, start=1):
        body = Group(config_table(outcome.run), Text(), *(Text(sentence) for sentence in sentences(outcome)))
        console.print(Panel(body, title=f"[bold]{number}. {outcome.title}", title_align="left"))
    console.print(
        f"{counted(len(outcomes), 'job')} in {seconds:.0f} s. For the whole story of a log: ringtune review LOG"
    )


def complaint(outcomes: Sequence[DemoOutcome], seconds: float) -> list[str]:
    """Return a sentence on the tuning runs that did not end within their time; none where all did."""
    unfinished = [f"'{outcome.title}'" for outcome in outcomes if not outcome.is_finished]
    if not unfinished:
        return []
    sentence = (
        f"{len(unfinished)} of {len(outcomes)} tuning runs did not end within {seconds:.0f} s "
        f"({', '.join(unfinished)}). Most likely something else keeps this machine busy: "
        "run the demo again once it is done"
    )
    return [sentence]


def config_table(run: RunReview) -> Table:
    """Return baseline and chosen config side by side, differences marked."""
    table = Table("knob", "baseline", "chosen", "", box=None, padding=(0, 2, 0, 0))
    baseline: Mapping[str, Value] = run.baseline or {}
    for knob, value in baseline.items():
        chosen = run.chosen[knob] if run.chosen else value
        if not knob.startswith(PINNED_PREFIX):
            style, mark = ("dim", "") if chosen == value else ("bold green", "changed")
            table.add_row(knob, readable_value(knob, value), Text(readable_value(knob, chosen), style=style), mark)
    return table


def speed_lines(speeds: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the first job's speeds and their ratios, with the interval that the tuner's own tests have.

    Args:
        speeds: Steps per second of each round under `default`, `tuned` and `ddp`; no tuned ones where the tuner kept
            the default.
    """
    names = {"default": "default", "tuned": "tuned", "ddp": "plain DDP (Gloo)"}
    rounds = len(speeds["default"])
    medians = [f"{name} {median(speeds[way]):.1f} steps/s" for way, name in names.items() if speeds[way]]
    best = "tuned" if speeds["tuned"] else "default"
    contests = [("default", "tuned")] if speeds["tuned"] else []
    first = f"Job 1, {counted(rounds, 'round')} in turn, medians: {', '.join(medians)}"
    return [first, *(contest_line(speeds, names, *pair) for pair in (*contests, ("ddp", best)))]


def contest_line(
    speeds: Mapping[str, Sequence[float]], names: Mapping[str, str], baseline: str, challenger: str
) -> str:
    """Return how much faster one way was than another, round by round, and whether that shows a difference."""
    title = f"{names[challenger]} against {names[baseline]}"
    pairs = [
        Pair(1e3 / before, 1e3 / after) for before, after in zip(speeds[baseline], speeds[challenger], strict=True)
    ]
    if len(pairs) < LEAST_PAIRS:
        return f"{title}: not compared, {len(pairs)} round shows nothing"
    found = speedup_interval(pairs)
    is_shown = found.low > 0 or found.high < 0
    claim = ("faster" if found.low > 0 else "slower") if is_shown else "no difference is shown"
    return f"{title}: {found.speedup:+.1%} (90 % interval {found.low:+.1%} to {found.high:+.1%}), {claim}"


def sentences(outcome: DemoOutcome) -> list[str]:
    """Return, in sentences, the decision, its reason, its cost, the accuracy, and the path of the log."""
    report = outcome.report
    accuracy = f"{report['metrics']['accuracy']:.1%} of unseen images read correctly"
    effort = (
        f"{counted(report['steps'], 'step')} in {report['seconds']:.0f} s on {counted(report['world_size'], 'rank')}"
    )
    return [
        f"Decision  {outcome.run.verdict}",
        *step_times(outcome.run),
        *why(outcome.run),
        *price(outcome.run),
        f"Training  {accuracy} after {effort}",
        *([f"Note      {outcome.note}"] if outcome.note else []),
        f"Log       {outcome.log_path}",
    ]


def step_times(run: RunReview) -> list[str]:
    """Return the step times under the baseline and the adopted config; of the baseline alone where it was kept."""
    before, after = run.steps_per_s
    if before is None:
        return []
    adopted = "" if after is None else f", {1e3 / after:.1f} ms under the adopted settings"
    return [f"Step      {1e3 / before:.1f} ms under the baseline{adopted}"]


def why(run: RunReview) -> list[str]:
    """Return why a long `cycle_ms` was chosen, where it was; the names of other knobs explain themselves."""
    chosen, after = run.chosen, run.steps_per_s[1]
    if chosen is None or after is None or float(chosen["cycle_ms"]) < 1e3 / after:
        return []
    early = "a round begins as soon as all gradients of a step are there, or the optimizer waits for one"
    return [f"Why       cycle_ms is longer than a step, and none waits so long: {early}; so there is one round a step"]


def price(run: RunReview) -> list[str]:
    """Return the cost of tuning and its payback; empty for a run that did not finish."""
    if run.cost_s is None:
        return []
    configs = len({sample.config for sample in run.tried})
    cost = f"cost {readable_cost(run.cost_s)} beyond the baseline's"
    text = f"Price     trying {counted(configs, 'config')} during {run.seconds:.0f} s of training {cost}"
    payback = f"; paid back after {counted(run.payback_steps, 'further step')}" if run.payback_steps else ""
    return [text + payback]
