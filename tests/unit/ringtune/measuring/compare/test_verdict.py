# SPDX-License-Identifier: Apache-2.0
"""The verdict of a comparison: from a record to a run, and from runs to a ratio with an interval."""

import json
import math
from typing import Any

import pytest

from ringtune.measuring.compare.comparison import FinishedComparison
from ringtune.measuring.compare.launching import ComparisonError, Run, checked_run
from ringtune.measuring.compare.messages import MARK, RunOrder, record_in
from ringtune.measuring.compare.report import json_report, text_report
from ringtune.measuring.compare.request import CompareRequest, RankProgram
from ringtune.measuring.compare.verdict import Verdict

ORDER = RunOrder("token", "ddp", 5, 100, "127.0.0.1", 29500)


def pairs(*seconds: tuple[float, float]) -> list[tuple[Run, Run]]:
    """Return pairs of runs of 100 steps that took so long under DDP and under ringtune."""
    facts = {"written_for": "ddp", "backend": "gloo"}
    return [(Run("ddp", 100, a, False, facts), Run("ringtune", 100, b, False, facts)) for a, b in seconds]


def test_the_ratio_is_the_geometric_mean_over_pairs() -> None:
    """Each pair counts alike; the interval is Student's t of the logarithms, two-sided at 90 %."""
    verdict = Verdict.of(pairs((2.0, 1.0), (3.0, 1.0), (8.0, 3.0)))

    logs = [math.log(2), math.log(3), math.log(8 / 3)]
    mean = sum(logs) / 3
    error = math.sqrt(sum((log - mean) ** 2 for log in logs) / 2 / 3)
    assert math.exp(mean) == pytest.approx(verdict.ratio)
    assert math.exp(mean - 2.91999 * error) == pytest.approx(verdict.low, rel=1e-4)
    assert math.exp(mean + 2.91999 * error) == pytest.approx(verdict.high, rel=1e-4)
    assert verdict.ratio == pytest.approx(verdict.ringtune_steps_per_s / verdict.ddp_steps_per_s)
    assert 100 / 48 ** (1 / 3) == pytest.approx(verdict.ddp_steps_per_s)
    assert "ringtune" == verdict.winner


@pytest.mark.parametrize(
    ("seconds", "winner", "words"),
    [
        (((1.0, 2.0), (1.0, 2.1)), "ddp", "DDP is faster here."),
        (((1.0, 2.0), (2.0, 1.0)), "none", "No difference is shown"),
        (((2.0, 1.0), (2.1, 1.0)), "ringtune", "ringtune's engine is faster here."),
    ],
)
def test_only_an_interval_on_one_side_names_a_winner(
    seconds: tuple[tuple[float, float], ...], winner: str, words: str
) -> None:
    """The winner is named in a sentence and in JSON if the interval lies on one side."""
    found = pairs(*seconds)
    request = CompareRequest(2, RankProgram(("python",), "train.py", ()))
    comparison = FinishedComparison(request, found, Verdict.of(found), ())

    assert winner == json_report(comparison)["winner"]
    assert words in text_report(comparison)
    assert "in the other arm ringtune's engine reduces DDP's buckets" in text_report(comparison)


@pytest.mark.parametrize(
    ("seconds", "is_steady"),
    [
        (((2.0, 2.3), (1.9, 2.3), (0.6, 0.96), (2.4, 4.1)), False),  # a false "DDP is faster" on a busy machine
        (((1.0, 4.0), (4.0, 1.0), (1.0, 1.1)), False),
        (((1.0, 1.3), (2.0, 2.6), (4.0, 5.3)), True),  # the machine is slower at times, for both arms alike
        (((1.0, 5.0), (1.6, 5.5), (1.1, 5.2)), True),  # far more than the scatter
        (((1.0, 1.05), (1.02, 1.0), (1.1, 1.0)), True),
    ],
)
def test_runs_that_scatter_by_more_than_the_arms_differ_have_no_winner(
    seconds: tuple[tuple[float, float], ...], is_steady: bool
) -> None:
    """The text and JSON say by how much; on a busy machine a few pairs lie on one side by chance."""
    found = pairs(*seconds)
    verdict = Verdict.of(found)
    comparison = FinishedComparison(
        CompareRequest(2, RankProgram(("python",), "train.py", ())), found, verdict, not_in_arms=()
    )

    assert is_steady == verdict.is_steady == json_report(comparison)["is_steady"]
    assert is_steady == ("none could be: runs of one arm differ by" not in text_report(comparison))
    assert is_steady or verdict.winner == "none"


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 0.0, -1.0])
def test_a_rate_that_is_none_has_no_verdict(seconds: float) -> None:
    """A time of zero or NaN becomes no ratio."""
    found = pairs((1.0, 1.0), (1.0, 1.0))
    bad = Run("ringtune", 100, seconds, did_script_end=False) if seconds else Run("ringtune", 0, 1.0, False)

    with pytest.raises(ComparisonError, match="no rate to compare"):
        Verdict.of([*found, (found[0][0], bad)])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"steps": 0, "seconds": 0.0}, "before 6 steps of a torch optimizer"),
        ({"steps": "many", "seconds": 1.0}, "before 6 steps of a torch optimizer"),
        ({"steps": 10, "seconds": math.nan}, "10 steps under PyTorch alone took nan s"),
        ({"steps": 1, "seconds": 0.0}, "1 step under PyTorch alone took 0.0 s"),
        ({"steps": 10, "seconds": None}, "which is no time"),
    ],
)
def test_a_record_of_no_time_is_refused(fields: dict[str, Any], reason: str) -> None:
    """The message names the arm and the remedy."""
    with pytest.raises(ComparisonError, match=reason):
        checked_run(fields, ORDER, "last words")


def test_records_are_told_from_what_scripts_write() -> None:
    """The run's token marks a record, which may begin within a line and may be cut."""
    line = MARK + b'token {"kind": "progress", "steps": 3}'

    assert {"kind": "progress", "steps": 3} == record_in(line, "token")
    assert {"kind": "progress", "steps": 3} == record_in(b"[0] " + line, "token")
    assert record_in(line, "other") is None
    assert record_in(line[:-4], "token") is None
    assert record_in(MARK + b"token [1]", "token") is None
    assert record_in(b"epoch 1", "token") is None


def test_an_order_survives_its_argument() -> None:
    """All fields, on the other side of a command line."""
    assert ORDER == RunOrder.from_argument(ORDER.to_argument())
    assert json.loads(ORDER.to_argument())["arm"] == "ddp"
