# SPDX-License-Identifier: Apache-2.0
"""Contestants on a tiny measured space: the whole policy, bare samplers, the file of rows and the tables."""

import sys
from pathlib import Path

import pytest

from benchmarks.tuner.measured import __main__ as program
from benchmarks.tuner.measured.contestants import CONTESTANTS
from benchmarks.tuner.measured.harness import Comparison, judged
from benchmarks.tuner.measured.outcomes import Outcome, read_outcomes, write_outcomes
from benchmarks.tuner.measured.spaces import MeasuredSpace, read_spaces
from benchmarks.tuner.measured.tables import PAGE, ROWS, mean_and_error, rewritten, tables
from tests.unit.benchmarks.tuner.measured.tiny_space import NAME, write_tiny_space

BUDGETS = (6, 12)


@pytest.fixture
def space(tmp_path: Path) -> MeasuredSpace:
    """The tiny space, read from its file."""
    return read_spaces(write_tiny_space(tmp_path))[NAME]


def outcome(contestant: str, seed: int, budget: int, ratio: float, space: str = "a") -> Outcome:
    """Return an outcome."""
    return Outcome(space, contestant, seed, budget, ratio, budget, 2, 0.25)


@pytest.mark.parametrize("name", CONTESTANTS)
def test_every_contestant_chooses_a_valid_config_within_its_budget(space: MeasuredSpace, name: str) -> None:
    """Failed launches are counted; a sampler by itself launches as often as it may."""
    if missing := CONTESTANTS[name].missing:
        pytest.skip(f"{name} needs {', '.join(missing)}, which is no dependency of the tests")
    is_policy = name.startswith("ringtune")

    found = judged(space, name, 1, BUDGETS)

    assert BUDGETS == tuple(outcome.budget for outcome in found)
    for outcome in found:
        assert outcome.ratio >= 1.0
        assert outcome.failed <= outcome.launches
        assert is_policy or outcome.launches == outcome.budget


def test_the_policy_tests_before_it_leaves_the_default(space: MeasuredSpace) -> None:
    """The choice is faster than the median, and there are more launches than tried configs."""
    (found,) = judged(space, "ringtune, random", 1, [20])

    assert found.ratio < space.ratio(space.default)
    assert found.launches > 20 + 3


def test_a_budget_of_all_launches_is_searched_to_its_end(space: MeasuredSpace) -> None:
    """Time passes with launches, or the policy would take their cost for all of the job's time, and never search."""
    (found,) = judged(space, "ringtune, all launches", 1, [40])

    assert 10 < found.launches <= 40
    assert found.ratio < space.ratio(space.default)


def test_a_seed_decides_everything(space: MeasuredSpace) -> None:
    """Two runs of a seed choose and count the same; another seed draws other runs."""
    first, second, other = (judged(space, "random", seed, BUDGETS) for seed in (4, 4, 5))

    assert [(o.ratio, o.failed) for o in first] == [(o.ratio, o.failed) for o in second]
    assert [(o.ratio, o.failed) for o in first] != [(o.ratio, o.failed) for o in other]


def test_kept_runs_are_not_run_again_unless_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run takes rows of the first; with --anew it replaces those of its contestants, and keeps the others."""
    write_tiny_space(tmp_path)
    kept = tmp_path / "rows.csv.xz"
    arguments = ["--data", str(tmp_path), "--seeds", "1", "--budgets", "6", "--jobs", "1", "--keep", str(kept)]
    write_outcomes(kept, [outcome("random", 0, 6, 99.0, NAME), outcome("tpe", 0, 6, 77.0, NAME)])

    printed = []
    for more in ([], ["--anew"]):
        monkeypatch.setattr(sys, "argv", ["measured", *arguments, "--contestants", "random", *more])
        program.main()
        printed.append(capsys.readouterr().out)

    assert "| random | 1 | 99.00 |" in printed[0]
    assert "99.00" not in printed[1]
    assert {"random", "tpe"} == {row.contestant for row in read_outcomes(kept)}


def test_only_runs_with_a_missing_budget_are_run() -> None:
    """A run counts as done where each of its budgets is known."""
    comparison = Comparison(Path(), ("a",), ("random",), (6, 12), range(2))
    known = [outcome("random", 0, 6, 1.0), outcome("random", 0, 12, 1.0), outcome("random", 1, 6, 1.0)]

    assert [("a", "random", 1)] == comparison.missing(known)


def test_spaces_have_the_same_weight_and_errors_are_over_seeds() -> None:
    """Mean 2 and 4 of two spaces, each with two seeds one apart: 3, and the error of fixed spaces."""
    rows = [outcome("random", s, 6, m + s, name) for name, m in (("a", 1.5), ("b", 3.5)) for s in (0, 1)]

    assert pytest.approx((3.0, (2 * 0.25) ** 0.5 / 2)) == mean_and_error(rows)
    assert ["a", "b", "all", "ablation"] == list(tables([*rows, outcome("tpe", 0, 6, 1.0, "a")]))
    assert "tpe" not in tables([*rows, outcome("tpe", 0, 6, 1.0, "a")])["all"]
    assert "| random | 2 | 3.00 ± 0.35 | 6 | 2 | 0.250 |" in tables(rows)["all"]


def test_searches_with_a_rule_off_have_a_table_of_their_own() -> None:
    """Beside the search as it is, on seeds that all of them had; they are no rivals."""
    rows = [outcome(name, 0, 6, 1.5) for name in ("ringtune", "ringtune with no repeats", "random")]
    rows.append(outcome("ringtune", 1, 6, 9.5))

    made = tables(rows)

    assert "no repeats" not in made["all"] + made["a"]
    assert ["ringtune", "ringtune with no repeats"] == [
        line.split(" | ")[0].removeprefix("| ") for line in made["ablation"].splitlines()[2:]
    ]
    assert "9.5" not in made["ablation"]
    assert "5.50" in made["all"]


@pytest.mark.parametrize("suffix", [".csv", ".csv.xz"])
def test_rows_come_back_as_they_were(tmp_path: Path, suffix: str) -> None:
    """Names with commas, too."""
    rows = [outcome("tpe, categories", 0, 6, 1.25), outcome("tpe, categories", 0, 12, 1.5)]

    write_outcomes(tmp_path / f"rows{suffix}", rows)

    assert rows == read_outcomes(tmp_path / f"rows{suffix}")


def test_the_page_has_the_tables_of_its_rows() -> None:
    """Tables and committed rows agree."""
    page = PAGE.read_text(encoding="utf-8")

    assert rewritten(page, read_outcomes(ROWS)) == page


def test_names_that_are_not_there_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message lists those there are."""
    arguments = ["measured", "--data", str(write_tiny_space(tmp_path)), "--contestants", "oracle"]
    monkeypatch.setattr(sys, "argv", arguments)

    with pytest.raises(SystemExit, match="no such contestant: oracle; there are: ringtune;"):
        program.main()
