# SPDX-License-Identifier: Apache-2.0
"""Outcomes of a comparison: those that count, pairs while it goes on, and tables."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.tuner.regret.harness import Outcome
from benchmarks.tuner.regret.outcomes import Outcomes, upper_bound
from benchmarks.tuner.regret.plots import write_plots
from benchmarks.tuner.regret.problems import Sources, problems_of
from benchmarks.tuner.regret.random_control import RandomControl
from benchmarks.tuner.regret.report import cost_table, render

PROBLEMS = problems_of(Sources(), "simulated")
RECORDED = problems_of(Sources(), "recorded")
STEEP, FLAT, INERT = "manysmall_np2", "resnet50_np2_flat", "aa_manysmall_np2"
RECORDED_STEEP = "recorded_manysmall_2x2_1gbit"


def outcome(
    rival: str,
    seed: int,
    regret: float = 0.0,
    problem: str = STEEP,
    *,
    loss: float = 0.0,
    budget: int = 200,
    later_cost: float = 0.0,
) -> Outcome:
    """Return a run's outcome."""
    return Outcome(problem, rival, seed, budget, regret, loss, 0.0, later_cost)


def test_a_run_counts_when_every_rival_has_done_it() -> None:
    """Pairs stay pairs: here the second seed has one rival only, and does not count."""
    runs = [outcome("random", 1), outcome("random", 0, 0.3), outcome("ringtune", 0, 0.1)]

    outcomes = Outcomes(runs, PROBLEMS, RandomControl())

    assert [0.3] == list(outcomes.values("regret", "random", 200, [STEEP]))
    assert [0.1] == list(outcomes.values("regret", "ringtune", 200, [STEEP]))


def test_a_problem_counts_where_the_control_says_so() -> None:
    """The control decides which problems count, not the random search that was run beside the others."""
    runs = [outcome("random", seed, 0.5) for seed in range(4)]

    found = [
        Outcomes(runs, PROBLEMS, RandomControl({STEEP: misses})).searched("simulated") for misses in ([True], [False])
    ]

    assert [(STEEP,), ()] == found


@pytest.mark.parametrize("problem", [FLAT, INERT])
def test_where_nothing_is_to_be_gained_nothing_counts_for_search(problem: str) -> None:
    """However lost random search was."""
    assert () == Outcomes([outcome("random", 0, 0.5, problem)], PROBLEMS, RandomControl()).searched("simulated")


def test_flat_problems_and_those_without_knobs_are_apart() -> None:
    """Each for a table of its own."""
    outcomes = Outcomes([outcome("random", 0, 0.5, name) for name in (STEEP, FLAT, INERT)], PROBLEMS, RandomControl())

    assert ((FLAT,), (INERT,)) == (outcomes.flat, outcomes.inert)


def test_a_rival_is_compared_run_by_run() -> None:
    """The error is that of the differences, not of the regrets."""
    runs = [outcome("random", seed, 0.10 * seed + 0.02) for seed in range(4)]
    runs += [outcome("ringtune", seed, 0.10 * seed) for seed in range(4)]

    mean, error = Outcomes(runs, PROBLEMS, RandomControl()).ahead("random", 200, [STEEP])

    assert 0.02 == pytest.approx(mean)
    assert 0.0 == pytest.approx(error, abs=1e-12)


def test_none_of_3600_runs_is_no_proof_of_never() -> None:
    """The rule of three: at most 3 of as many."""
    assert upper_bound(0, 3600) == pytest.approx(3 / 3600, rel=0.01)


def test_no_gain_elsewhere_or_later_pays_for_what_a_problem_lost() -> None:
    """The highest cost of every budget is told, and how many runs cost too much."""
    costs = {(STEEP, 200): (0.01, 0.07), (FLAT, 200): (-0.5, -0.5), (STEEP, 600): (-0.5, -0.5), (FLAT, 600): (0.0, 0.0)}
    runs = [
        outcome("ringtune", seed, problem=problem, budget=budget, later_cost=cost)
        for (problem, budget), of_seeds in costs.items()
        for seed, cost in enumerate(of_seeds)
    ]
    console = Console(width=200, record=True, file=StringIO())

    console.print(cost_table(Outcomes(runs, PROBLEMS, RandomControl())))

    text = console.export_text()
    assert f"4.0 % {STEEP}" in text
    assert f"0.0 % {FLAT}" in text
    assert "1 of 8" in text


def test_problems_of_several_kinds_are_pooled_each_as_much_as_another() -> None:
    """Two of one kind at 10 %, one of another at 40 %: 20 % on the whole, in a table that no kind alone has."""
    regrets = {STEEP: 0.10, "manysmall_4x4_10gbit": 0.10, RECORDED_STEEP: 0.40}
    runs = [outcome(rival, 0, regret, name) for rival in ("random", "ringtune") for name, regret in regrets.items()]
    console = Console(width=200, record=True, file=StringIO())

    render(Outcomes(runs, {**PROBLEMS, **RECORDED}, RandomControl()), console)

    text = console.export_text()
    assert "simulated, recorded, together: 3 count for search" in text
    assert "20.0 %, 0 %" in text.split("together: ")[1]


def test_one_kind_alone_is_not_pooled() -> None:
    """A single kind has one table, not a second one as the pool."""
    console = Console(width=200, record=True, file=StringIO())

    render(Outcomes([outcome("random", 0, 0.1)], PROBLEMS, RandomControl()), console)

    assert "together" not in console.export_text()


def test_tables_and_figures_say_the_same(tmp_path: Path) -> None:
    """Both show the regret, the rivals that are ahead by more than two errors, and the number of worse picks."""
    runs = [outcome("random", seed, 0.10 + 0.001 * seed, budget=b) for seed in range(3) for b in (100, 200)]
    runs += [outcome("ringtune", seed, 0.01, budget=b) for seed in range(3) for b in (100, 200)]
    runs += [outcome(rival, 0, 0.0, FLAT, loss=0.06, budget=b) for rival in ("random", "ringtune") for b in (100, 200)]
    outcomes = Outcomes(runs, PROBLEMS, RandomControl())
    console = Console(width=200, record=True, quiet=False, file=(tmp_path / "t").open("w"))

    render(outcomes, console)
    pages = write_plots(outcomes, tmp_path / "plots")

    text = console.export_text()
    assert "10.1 %, 0 %" in text
    assert "+9.1 ± 0.1 ahead" in text
    assert "+6.0 %" in text
    assert {"regret_simulated.html", "distribution_simulated.html", "losses.html"} == {page.name for page in pages}
    assert all("plotly.min.js" in page.read_text() and "https://" not in page.read_text()[:400] for page in pages)
