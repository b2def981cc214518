# SPDX-License-Identifier: Apache-2.0
"""The report that people see."""

import dataclasses
import io
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from rich.console import Console

from ringtune.tuner import Config, Result
from ringtune.tuning.command.engines import WinnerFile, find_engine
from ringtune.tuning.command.launch_target import LaunchEvent
from ringtune.tuning.command.launching import Launched, LaunchEnding
from ringtune.tuning.command.report import LaunchDisplay, comment_text, median_of, print_table, result_table
from ringtune.tuning.command.results import Comparison
from ringtune.tuning.command.scores import LineScore

BASELINE = find_engine("horovod").baseline()
BETTER = BASELINE.replace({"fusion_bytes": 8 * 2**20})
ENDED = "The search ended because all 20 samples were used."
ADOPTED = Result(BETTER, BASELINE, True, "adopted: it is faster", 0.25, 0.2, 0.3, 1.0, 5, 100, 60.0, True, ended=ENDED)
UNCOMPARED = Comparison(0, 1e-3, 0.0, 0)
KEPT = Result(BASELINE, BASELINE, False, "keeping default: flat", None, None, None, 1.0, None, 100, 60.0, True)


def printed(
    result: Result,
    files: dict[Path, WinnerFile],
    *,
    terminal: bool = False,
    comparison: Comparison = UNCOMPARED,
    refusals: Mapping[Config, str] = MappingProxyType({}),
) -> str:
    """Return the table as text."""
    stream = io.StringIO()
    table = result_table(result, files, "12.5 ms", comparison, refusals)
    print_table(table, Console(file=stream, force_terminal=terminal, width=100))
    return stream.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_a_winner_is_shown_with_its_file_and_how_to_use_it(*, terminal: bool) -> None:
    """Baseline, choice, speed-up with its interval, the end of the search, and the file."""
    text = printed(ADOPTED, {Path("/out/h.sh"): WinnerFile("h.sh", b"", ". {path}")}, terminal=terminal)

    expected = ("the defaults, 12.5 ms", "fusion_bytes 8 MiB", "+25.0 %", "+20.0 % to +30.0 %", ENDED, ". /out/h.sh")
    for part in expected:
        assert part in text


def test_no_winner_is_no_file() -> None:
    """The words are those of the rest of the house."""
    text = printed(KEPT, {}, terminal=False)

    assert "chosen: keeping default\n" in text
    assert "written: no files: the default is kept, and needs none" in text


def test_a_long_path_is_not_broken_where_a_program_reads_it() -> None:
    """A wrapped path could not be copied."""
    path = Path("/" + "long" * 60)

    assert f"written: {path}\n" in printed(ADOPTED, {path: WinnerFile("x", b"")}, terminal=False)


def test_each_launch_is_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    """A line has the launch's median and settings, or the reason of its failure and the command's last words."""
    display = LaunchDisplay(BASELINE)

    display.launched(LaunchEvent(BETTER, Launched((3.0, 1.0, 2.0), LaunchEnding.BY_ITSELF, 0, 0.5, ())))
    display.launched(LaunchEvent(BASELINE, Launched((), LaunchEnding.BY_ITSELF, 3, 0.5, ("first", "out of luck"))))

    good, bad = capfd.readouterr().err.splitlines()
    assert "2 ms (3 steps, 0.5 s) with fusion_bytes 8 MiB" in good
    assert bad.endswith("failed with exit code 3 after 0.5 s, with the defaults: out of luck")
    assert (2.0, BETTER) == display.best


def test_a_launch_shows_the_users_own_score(capfd: pytest.CaptureFixture[str]) -> None:
    """A score that should be high is shown as it was printed, not as the time that stands for it."""
    display = LaunchDisplay(BASELINE, shown=LineScore.of(r"(\S+) GB/s", higher_is_better=True).shown)

    display.launched(LaunchEvent(BETTER, Launched((1000 / 80.0,), LaunchEnding.BY_ITSELF, 0, 0.5, ())))

    assert ": score 80 (one step, 0.5 s) with fusion_bytes 8 MiB" in capfd.readouterr().err


def test_a_comment_is_single_lines() -> None:
    """A command with a newline in it cannot break out of the comment."""
    comment = comment_text("horovod", ["sh", "-c", "a\nb"], ADOPTED)

    assert 4 == len(comment.splitlines())
    assert "fusion_bytes 8 MiB" in comment


def test_the_median_of_an_even_number_is_between_two() -> None:
    """The median of an even number of values is between the middle two."""
    assert 2.5 == median_of([4.0, 1.0, 2.0, 3.0])


def test_the_comparison_of_results_is_said_with_its_spread() -> None:
    """A reader sees how many results were compared, how strictly, and how well the defaults repeat themselves."""
    text = printed(KEPT, {}, comparison=Comparison(2, 1e-3, 4.2e-5, 5))

    compared = "results: compared with those of the defaults: 2 per launch, to 0.001; "
    assert f"{compared}the defaults' own spread over 6 launches is 4.2e-05\n" in text


def test_refused_configs_are_named_with_their_reason() -> None:
    """The first ones are; the others are counted."""
    refusals = {BASELINE.replace({"fusion_bytes": size * 2**20}): f"reason {size}" for size in range(1, 12)}

    text = printed(KEPT, {}, refusals=refusals)

    assert "refused: fusion_bytes 1 MiB: reason 1\n" in text
    assert "refused: 3 configs more; each has a line above\n" in text
    assert 9 == text.count("refused: ")


@pytest.mark.parametrize("terminal", [False, True])
def test_foreign_texts_are_printable(*, terminal: bool) -> None:
    """Choices of a knob file and words of the program bring no escape sequence, no markup and no line of a comment."""
    foreign = "a\x1b]0;title\x07[red]b\rrm -rf x"
    result = dataclasses.replace(ADOPTED, verdict=foreign)

    text = printed(result, {}, terminal=terminal, refusals={BETTER: foreign})
    comment = comment_text(foreign, ["sh", foreign], result)

    assert "\x1b]" not in text
    assert "a\\x1b]0;title\\x07[red]b\\rrm -rf x" in text.replace("\n", "")
    assert [True] * 4 == [line.isprintable() for line in comment.splitlines()]
