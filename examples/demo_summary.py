# SPDX-License-Identifier: Apache-2.0
"""Explain to a newcomer what came of a tuned job.

Duty: from the review of a tuning log and a job's report to a table and a few sentences. It decides nothing.
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

from ringtune.tuner import readable_value
from ringtune.tuner.config import Value
from ringtune.tuner.review import RunReview, TriedSample, review_log
from ringtune.tuner.sample import Phase

PINNED_PREFIX = "hierarchical_"  # pinned on one host: rows without news


@dataclass(frozen=True)
class Outcome:
    """One job: what it was, the review of its tuning run, and its report."""

    title: str
    log_path: Path
    run: RunReview
    report: Mapping[str, Any]

    @classmethod
    def read(cls, title: str, log_path: Path, report: Mapping[str, Any]) -> "Outcome":
        """Review the last run of a tuning log.

        Raises:
            ValueError: If the log holds no run.
            OSError: If it cannot be read.
        """
        runs = review_log(log_path).runs
        if not runs:
            raise ValueError(f"{log_path} holds no tuning run: was AUTOTUNE=1 set?")
        return cls(title, log_path, runs[-1], report)

    @property
    def is_finished(self) -> bool:
        """Whether the tuning run came to its end."""
        return self.run.is_complete


def render(outcomes: Sequence[Outcome], console: Console, *, seconds: float) -> None:
    """Print one panel per job and how long all of them took."""
    console.rule("[bold]what came of it")
    for number, outcome in enumerate(outcomes, start=1):
        body = Group(config_table(outcome.run), Text(), *(Text(sentence) for sentence in sentences(outcome)))
        console.print(Panel(body, title=f"[bold]{number}. {outcome.title}", title_align="left"))
    console.print(f"{len(outcomes)} jobs in {seconds:.0f} s. For the whole story of a log: ringtune review LOG")


def complaint(outcomes: Sequence[Outcome], seconds: float) -> str | None:
    """Return which tuning runs did not end within their time and what to do about it; None where all did."""
    unfinished = [f"'{outcome.title}'" for outcome in outcomes if not outcome.is_finished]
    if not unfinished:
        return None
    return (
        f"{len(unfinished)} of {len(outcomes)} tuning runs did not end within {seconds:.0f} s "
        f"({', '.join(unfinished)}). Most likely something else keeps this machine busy: "
        "run the demo again once it is done"
    )


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


def sentences(outcome: Outcome) -> list[str]:
    """Return, in words, what was decided and why, what it cost, what was learned, and where the log lies."""
    report = outcome.report
    accuracy = f"{report['metrics']['accuracy']:.1%} of unseen images read correctly"
    effort = f"{report['steps']:,} steps in {report['seconds']:.0f} s on {report['world_size']} ranks"
    return [
        f"Decision  {outcome.run.verdict}",
        *step_times(outcome.run),
        *price(outcome.run),
        f"Training  {accuracy} after {effort}",
        f"Log       {outcome.log_path}",
    ]


def step_times(run: RunReview) -> list[str]:
    """Return the median step times of the adoption test; nothing where there was none."""
    tried = [sample for sample in run.tried if sample.phase == Phase.ADOPTION and sample.valid]
    before = _median_ms([sample for sample in tried if sample.config == run.baseline])
    after = _median_ms([sample for sample in tried if sample.config != run.baseline])
    if before is None or after is None:
        return []
    return [f"Step      {before:.1f} ms under the baseline, {after:.1f} ms under the best candidate"]


def _median_ms(samples: Sequence[TriedSample]) -> float | None:
    times = [sample.step_ms for sample in samples if sample.step_ms is not None]
    return median(times) if times else None


def price(run: RunReview) -> list[str]:
    """Return what tuning cost and when it pays back; nothing for a run that did not finish."""
    if run.cost_s is None:
        return []
    configs = len({sample.config for sample in run.tried})
    cost = f"lost {run.cost_s:.1f} s" if run.cost_s >= 0 else f"gained {-run.cost_s:.1f} s already"
    text = f"Price     trying {configs} configs took {run.seconds:.0f} s of training and {cost} against the baseline"
    payback = "" if run.payback_steps is None else f"; paid back after {run.payback_steps:,} further steps"
    return [text + payback]
