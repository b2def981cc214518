# SPDX-License-Identifier: Apache-2.0
"""The review as tables in a terminal. Everything from the log is shown as text, never as markup."""

import unicodedata
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ringtune.tuner import readable_value
from ringtune.tuner.config import Config

from .summary import Review, RunReview, TriedSample

SHOWN_BAD_LINES = 10
UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs"})
"""Control and formatting characters, and halves of characters, which no terminal can be sent."""


def render_table(review: Review, console: Console) -> None:
    """Print the verdict and what was tried for each run, the newest last, then the lines that could not be read."""
    if not review.runs:
        _say(console, f"{review.path}: no record of a tuning run")
    for run in review.runs:
        _render_run(run, console)
    for bad in review.bad_lines[:SHOWN_BAD_LINES]:
        _say(console, f"line {bad.number}: not read: {bad.reason}")
    hidden = review.bad_line_count - min(len(review.bad_lines), SHOWN_BAD_LINES)
    if hidden > 0:
        _say(console, f"and {hidden} more lines that were not read")


def _render_run(run: RunReview, console: Console) -> None:
    _say(console, f"Run {run.run_id}, {run.seconds:.0f} s", style="bold")
    _say(console, run.verdict, style="green" if run.adopted else "yellow")
    if run.cost_s is not None:
        _say(console, _cost(run))
    if run.baseline is not None and run.chosen is not None:
        console.print(_config_table(run.baseline, run.chosen))
    varied = _varied([sample.config for sample in run.tried])
    console.print(_tried_table(run.tried, varied))


def _cost(run: RunReview) -> str:
    lost = run.cost_s or 0.0
    if lost < 0:
        return f"Tuning gained {-lost:.1f} s while it ran"
    cost = f"Tuning cost {lost:.1f} s"
    return cost if run.payback_steps is None else f"{cost}; it pays back after {run.payback_steps} steps"


def _config_table(baseline: Config, chosen: Config) -> Table:
    table = _new_table("parameter", "baseline", "chosen")
    for name in dict.fromkeys([*baseline, *chosen]):
        before, after = readable_value(name, baseline.get(name)), readable_value(name, chosen.get(name))
        table.add_row(_text(name), _text(before), _text(after, style="bold" if before != after else ""))
    return table


def _tried_table(samples: Iterable[TriedSample], varied: list[str]) -> Table:
    table = _new_table("trial", "phase", *varied, "MB/s", "expected", "step ms", "steps", "valid")
    for sample in samples:
        table.add_row(
            str(sample.trial_id),
            sample.phase,
            *(_text(readable_value(name, sample.config.get(name))) for name in varied),
            _megabytes(sample.score_bytes_per_s),
            _megabytes(sample.expected_score),
            "-" if sample.step_ms is None else f"{sample.step_ms:.2f}",
            str(sample.steps),
            "yes" if sample.valid else f"no: {sample.reason}",
            style="" if sample.valid else "dim",
        )
    return table


def _varied(configs: list[Config]) -> list[str]:
    """Return the parameters that took more than one value: the others would only widen the table."""
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({config.get(name) for config in configs}) > 1]


def _megabytes(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else f"{bytes_per_s / 1e6:.1f}"


def _new_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(_text(column))
    return table


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(_text(text, style=style))


def _text(text: str, style: str = "") -> Text:
    """Return text without markup and without control characters, so that a log cannot steer the terminal."""
    plain = "".join("?" if unicodedata.category(character) in UNSAFE_CATEGORIES else character for character in text)
    return Text(plain, style=style)
