# SPDX-License-Identifier: Apache-2.0
"""Display of the tuning of a command: a line per launch on stderr, a table at the end."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ringtune.system.console import write_line
from ringtune.system.printable import printable
from ringtune.tuner import Config, Phase, Progress, Result, readable_value

from .engines import WinnerFile
from .launch_target import LaunchEvent
from .launching import LaunchEnding
from .results import Comparison
from .scores import step_text

PREFIX = "ringtune tune:"
UNCHECKED = "not compared: the command prints none; let it print lines such as 'ringtune: result=1.25'"
MOST_REFUSED = 8
"""Refused configs that the table names."""


class LaunchDisplay:
    """Observer of the tuning run that shows every launch as well. Used from one thread."""

    def __init__(
        self, baseline: Config, failures_text: Callable[[], str] = str, shown: Callable[[float], str] = step_text
    ) -> None:
        """Begin without a line on the screen.

        Args:
            baseline: The config that leaves every knob unset.
            failures_text: Returns the addition to the verdict about failed launches.
            shown: Returns a step time in ms as people know it, such as their score.
        """
        self._shown = shown
        self._failures_text = failures_text
        self._baseline = baseline
        self._phase = Phase.BASELINE
        self._place = ""
        self._seconds_left: float | None = None
        self.best: tuple[float, Config] | None = None

    def launched(self, event: LaunchEvent) -> None:
        """Show a launch."""
        launched = event.launched
        settings = settings_text(event.config, self._baseline)
        if launched.failure:
            last = f": {launched.tail[-1]}" if launched.tail else ""
            write_line(f"{PREFIX} {self._phase.value}{self._place}: {launched.failure}, with {settings}{last}")
            return
        median_ms = median_of(launched.step_ms)
        if self.best is None or median_ms < self.best[0]:
            self.best = (median_ms, event.config)
        how = "one step" if len(launched.step_ms) == 1 else f"{len(launched.step_ms)} steps"
        if launched.ending is not LaunchEnding.BY_ITSELF:
            how += f", {launched.ending.value}"
        left = "" if self._seconds_left is None else f", about {self._seconds_left:.0f} s left"
        write_line(
            f"{PREFIX} {self._phase.value}{self._place}: {self._shown(median_ms)} ({how}, "
            f"{launched.seconds:.2g} s) with {settings}{left}"
        )

    def progress(self, progress: Progress) -> None:
        """Remember where the run stands, for the next launch's line."""
        self._phase = progress.phase
        self._place = "" if progress.samples_total is None else f" {progress.sample}/{progress.samples_total}"
        self._seconds_left = progress.seconds_left

    def finished(self, result: Result) -> None:
        """Show the verdict, if there is one."""
        if result.is_complete:
            write_line(f"{PREFIX} {result.verdict}{self._failures_text()}")

    def warned(self, text: str) -> None:
        """Show a warning."""
        write_line(f"{PREFIX} warning: {text}")


def median_of(step_ms: Sequence[float]) -> float:
    """Return the median of at least one step time."""
    ordered = sorted(step_ms)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def settings_text(config: Config, baseline: Config) -> str:
    """Return the settings of a config in words: all that is not as in the baseline."""
    chosen = [f"{name} {readable_value(name, value)}" for name, value in config.items() if value != baseline[name]]
    return ", ".join(chosen) or "the defaults"


def comment_text(engine: str, command: Sequence[str], result: Result) -> str:
    """Return the comment of a winner's file."""
    lines = [
        f"{engine}: written by ringtune tune.",
        f"For: {shlex.join(command)}",
        f"Verdict: {result.verdict}",
        f"Sets: {settings_text(result.config, result.baseline)}",
    ]
    return "\n".join(map(printable, lines))


def result_table(
    result: Result,
    written: Mapping[Path, WinnerFile],
    baseline: str | None,
    comparison: Comparison,
    refusals: Mapping[Config, str],
) -> Table:
    """Return the result as a table.

    Args:
        result: Result of the run.
        written: The files that keep the winner, by path.
        baseline: Median step time of the defaults, or their score; None where it was not measured.
        comparison: Extent to which the launches' results were compared.
        refusals: Reasons why configs were given up, by config.
    """
    rows = [("baseline", "the defaults" if baseline is None else f"the defaults, {baseline}")]
    rows.append(("chosen", settings_text(result.config, result.baseline) if result.adopted else "keeping default"))
    if result.speedup is not None:
        interval = f"{100 * result.ci_level:g} % interval {_percent(result.ci_low)} to {_percent(result.ci_high)}"
        rows.append(("speed-up", f"{_percent(result.speedup) if result.adopted else 'none shown'} ({interval})"))
    ended = [("ended", result.ended)] if result.ended else []
    rows += [("verdict", result.verdict), *ended, ("results", comparison_text(comparison))]
    rows += _refused_rows(refusals, result.baseline)
    for path, file in written.items():
        rows.append(("written", str(path)))
        if file.usage:
            rows.append(("to use it", file.usage.format(path=path)))
    if not result.adopted:
        rows.append(("written", "no files: the default is kept, and needs none"))
    return rows_table(rows)


def _refused_rows(refusals: Mapping[Config, str], baseline: Config) -> list[tuple[str, str]]:
    rows = [
        ("refused", f"{settings_text(config, baseline)}: {reason}")
        for config, reason in [*refusals.items()][:MOST_REFUSED]
    ]
    if len(refusals) > MOST_REFUSED:
        rows.append(("refused", f"{len(refusals) - MOST_REFUSED} configs more; each has a line above"))
    return rows


def rows_table(rows: Iterable[tuple[str, str]]) -> Table:
    """Return rows of a name and a text as a table; the texts may be others', such as choices and results."""
    table = Table(title=None, show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    for name, text in rows:
        table.add_row(name, Text(printable(text)))
    return table


def comparison_text(comparison: Comparison) -> str:
    """Return in words whether and how sharply results were compared."""
    if not comparison.count:
        return UNCHECKED
    text = f"compared with those of the defaults: {comparison.count} per launch, to {comparison.tolerance:g}"
    if comparison.repeats:
        text += f"; the defaults' own spread over {comparison.repeats + 1} launches is {comparison.spread:.2g}"
    return text


def print_table(table: Table, console: Console) -> None:
    """Print a table; paths and commands in it are not broken where the output is no terminal."""
    if not console.is_terminal:
        for what, value in zip(*(column.cells for column in table.columns), strict=True):
            console.print(f"{what}: {value}", soft_wrap=True, markup=False, highlight=False)
        return
    console.print(table, markup=False)


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:+.1f} %"
