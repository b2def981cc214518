# SPDX-License-Identifier: Apache-2.0
"""Review in a terminal, the verdict first. Everything from the log is shown as text, never as markup."""

import sys
import unicodedata
from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ringtune.system.counts import counted
from ringtune.tuner import readable_value
from ringtune.tuner.policy.reporting import verdict_parts
from ringtune.tuner.space.config import Config

from . import words
from .advice import advice
from .analysis import Analysis, TrialReview, analyse
from .comparison import Row, comparison
from .sensitivity import Sensitivity
from .settings_text import settings_to_paste
from .so_far import so_far
from .spaces import own_names
from .summary import Review, RunReview

SHOWN_BAD_LINES = 10
SHOWN_TRIALS = 60
SHOWN_RUNS = 6
"""Maximum number of runs of one log in the side-by-side table; the newest is then shown in full."""
BOUNDLESS = 10_000
"""Width in columns of an output that is not a terminal, so large that no text is cut or wrapped."""
UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs"})
"""Unicode categories of control characters, formatting characters and lone surrogates, unsafe in a terminal."""


def output_console() -> Console:
    """Return a console on standard output, as wide as the terminal; a pipe or a file has no width limit."""
    return Console(width=None if sys.stdout.isatty() else BOUNDLESS)


def render_review(review: Review, console: Console) -> None:
    """Print the runs of a log side by side, then the newest run in full, then the unreadable lines."""
    if not review.runs:
        _say(console, words.without_runs(review))
    runs = review.telling_runs
    if len(runs) > 1:
        shown = runs[-SHOWN_RUNS:]
        older = len(runs) - len(shown) + review.runs_left_out
        _say(console, f"The newest {len(shown)} runs of this log{f'; {older} older' if older else ''}", style="bold")
        _render_rows(comparison([(words.run_name(run), run, analyse(run)) for run in shown]), console)
    for sentence in words.left_out(review):
        _say(console, sentence, style="dim")
    for run in runs[-1:]:
        _render_run(run, analyse(run), console)
    _render_bad_lines(review, console)


def render_comparison(reviews: Sequence[Review], console: Console) -> None:
    """Print the newest run of each log side by side, and the unreadable lines of each."""
    newest = [(review.path, review.telling_runs[-1]) for review in reviews if review.runs]
    _render_rows(comparison([(path, run, analyse(run)) for path, run in newest]), console)
    for review in reviews:
        if not review.runs or review.bad_line_count:
            _say(console, review.path if review.runs else words.without_runs(review))
            _render_bad_lines(review, console)
    _say(console, "One log alone is shown in full: ringtune review LOG", style="dim")


def _render_run(run: RunReview, analysis: Analysis, console: Console) -> None:
    _say(console, words.title(run), style="bold")
    first, rest = verdict_parts(run.verdict)
    _say(console, first, style="bold green" if run.adopted else "bold yellow")
    for sentence in (*rest, *so_far(run, analysis), *words.rates(run), *words.cost(run)):
        _say(console, sentence)
    settings = settings_to_paste(run)
    if settings:
        _say(console, "Settings to paste:")
        for line in settings:
            _say(console, f"  {line}")
    elif run.is_complete:
        _say(console, "Settings to paste: none, the default stays")
    if run.baseline is not None and run.chosen is not None:
        console.print(_config_table(own_names(run), run.baseline, run.chosen))
    _render_inference(run, analysis, console)


def _render_inference(run: RunReview, analysis: Analysis, console: Console) -> None:
    console.print()
    _say(console, words.convergence(run, analysis))
    console.print(_fitting_trial_table(run, analysis, console))
    left_out = max(len(analysis.trials) - SHOWN_TRIALS, 0)
    if left_out or run.windows_left_out:
        windows = counted(run.windows_left_out, "window")
        _say(console, f"and {counted(left_out, 'more trial')}; {windows} of this huge log only counted")
    console.print()
    if analysis.sensitivities:
        console.print(_sensitivity_table(analysis.sensitivities))
        _say(console, words.HOW, style="dim")
    else:
        _say(console, "Sensitivity: not known; too few windows or configs")
    _say(console, words.noise(run, analysis))
    if run.has_step_times:
        _say(console, words.drift(analysis))
    sentences = advice(run, analysis)
    if sentences:
        _say(console, "Advice", style="bold")
    for sentence in sentences:
        _say(console, f"- {sentence}")


def _render_bad_lines(review: Review, console: Console) -> None:
    if review.is_no_log:
        return
    for bad in review.bad_lines[:SHOWN_BAD_LINES]:
        _say(console, f"line {bad.number}: not read: {bad.reason}")
    hidden = review.bad_line_count - min(len(review.bad_lines), SHOWN_BAD_LINES)
    if hidden > 0:
        _say(console, f"and {counted(hidden, 'more line')} not read")


def _config_table(names: Sequence[str], baseline: Config, chosen: Config) -> Table:
    table = _new_table("parameter", "baseline", "chosen")
    for name in names:
        before, after = readable_value(name, baseline.get(name)), readable_value(name, chosen.get(name))
        table.add_row(_text(name), _text(before), _text(after, style="bold" if before != after else ""))
    return table


def _fitting_trial_table(run: RunReview, analysis: Analysis, console: Console) -> Table:
    """Return the table of trials; without the designer's expected scores if the terminal is too narrow."""
    table = _trial_table(run, analysis, has_expected=True)
    is_too_wide = Measurement.get(console, console.options.update(max_width=BOUNDLESS), table).maximum > console.width
    return _trial_table(run, analysis, has_expected=False) if is_too_wide else table


def _trial_table(run: RunReview, analysis: Analysis, *, has_expected: bool) -> Table:
    varied = varied_names(analysis.trials)
    over = "speed-up over_chosen, %" if run.baseline is None else "speed-up over_baseline, %"
    table = Table(box=None, pad_edge=False)
    measured, expected = ("median_ms", "expected_ms") if run.has_step_times else ("score_MB/s", "expected_MB/s")
    run = analysis.levelled.run
    for column in ("trial", *varied, measured, *([expected] if has_expected else []), over, "windows"):
        table.add_column(Text(_text(column).plain.replace("_", "\n")))  # two short lines keep the column narrow
    for trial in analysis.trials[:SHOWN_TRIALS]:
        table.add_row(
            _text(words.name_of(trial).removeprefix("trial ")),
            *(_text(readable_value(name, trial.config.get(name))) for name in varied),
            words.speed(run, trial.log_time).partition(" ")[0],
            *([words.expected(run, trial).partition(" ")[0]] if has_expected else []),
            _over_reference(trial),
            _text(words.windows(trial)),
            style="bold" if trial.config == run.chosen else "" if trial.windows else "dim",
        )
    return table


def _over_reference(trial: TrialReview) -> str:
    """Return the interval of the speed-up, without its unit."""
    return "-" if trial.change is None else words.short_interval(trial.change).removesuffix(" %")


def varied_names(trials: Sequence[TrialReview]) -> list[str]:
    """Return the parameters that took more than one value; others would only widen the table."""
    names = dict.fromkeys(name for trial in trials for name in trial.config)
    return [name for name in names if len({trial.config.get(name) for trial in trials}) > 1]


def _sensitivity_table(items: Sequence[Sensitivity]) -> Table:
    table = _new_table("parameter", "effect", "90 %", "best", "worst", "tried", "")
    for item in items:
        best, worst = readable_value(item.name, item.best), readable_value(item.name, item.worst)
        effect = (words.percent(item.effect.fraction), words.short_interval(item.effect))
        table.add_row(_text(item.name), *effect, _text(best), _text(worst), str(item.tried), item.finding)
    return table


def _render_rows(rows: Sequence[Row], console: Console) -> None:
    if not rows:
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, cells in rows:
        table.add_row(_text(name, style="bold"), *(_text(cell) for cell in cells))
    console.print(table)


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
