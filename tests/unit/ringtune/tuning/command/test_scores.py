# SPDX-License-Identifier: Apache-2.0
"""Step times from lines."""

import pytest

from ringtune.errors import ConfigError
from ringtune.tuning.command.scores import STEP_LINE, LineScore, Score, WallScore


def test_the_default_finds_our_lines_among_others() -> None:
    """Lines behind a launcher's prefix are found, and several in a line."""
    score = LineScore.of(STEP_LINE, higher_is_better=False)

    assert [12.5] == score.times_ms("[1,0]<stdout>: ringtune: step_ms=12.5")
    assert [1.0, 2e-3] == score.times_ms("ringtune: step_ms=1 ringtune: step_ms=2e-3")
    assert [] == score.times_ms("step 3 took 12.5 ms")


def test_more_of_a_score_is_less_time() -> None:
    """Twice the throughput is half the time; per second it is milliseconds."""
    score = LineScore.of(r"images/s: (\S+)", higher_is_better=True)

    assert [2.5] == score.times_ms("images/s: 400")
    assert [1.25] == score.times_ms("images/s: 800")
    assert "1000 / score" in score.description


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "", "fast", "1e-320", "1e999", "--"])
def test_what_is_no_time_is_left_out(text: str) -> None:
    """A division by zero or a NaN does not reach the tuner."""
    for higher_is_better in (False, True):
        score = LineScore.of("score=(.*)", higher_is_better=higher_is_better)
        assert [] == score.times_ms(f"score={text}")
        assert text == score.unusable(f"score={text}")


@pytest.mark.parametrize(("text", "said"), [("(", "no regular expression"), ("a", "0 groups"), ("(a)(b)", "2 groups")])
def test_a_pattern_needs_one_group(text: str, said: str) -> None:
    """The message has the pattern's number of groups."""
    with pytest.raises(ConfigError, match=said):
        LineScore.of(text, higher_is_better=False)


def test_a_group_that_took_no_part_is_left_out() -> None:
    """An optional group may match no text."""
    assert [] == LineScore.of("score(=[0-9]+)?", higher_is_better=False).times_ms("score")


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        (LineScore.of(STEP_LINE, higher_is_better=False), "12.5 ms"),
        (LineScore.of(r"loss (\S+)", higher_is_better=False), "score 12.5"),
        (LineScore.of(r"(\S+) GB/s", higher_is_better=True), "score 80"),
        (WallScore(), "12.5 ms"),
    ],
)
def test_a_score_is_shown_as_the_user_knows_it(score: Score, shown: str) -> None:
    """Only a time has the unit of one."""
    assert shown == score.shown(12.5)


def test_the_duration_of_a_launch_is_in_no_line() -> None:
    """The duration counts whatever the command prints."""
    assert [] == WallScore().times_ms("ringtune: step_ms=12.5")
    assert not WallScore().is_of_lines
