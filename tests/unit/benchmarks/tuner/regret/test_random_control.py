# SPDX-License-Identifier: Apache-2.0
"""Problems that count for search, and the runs of random search that settle it."""

from io import StringIO

import pytest
from rich.console import Console

from benchmarks.tuner.regret.harness import Outcome, RegretBenchmark
from benchmarks.tuner.regret.outcomes import Outcomes
from benchmarks.tuner.regret.problem import NEAR
from benchmarks.tuner.regret.problems import Sources, problems_of
from benchmarks.tuner.regret.random_control import CONTROL, CONTROL_BUDGET, ROUNDS, RandomControl, settle
from benchmarks.tuner.regret.report import render

CLEAR, CLOSE, FLAT = "manysmall_4x4_10gbit", "manysmall_np2", "resnet50_np2_flat"


class Runs:
    """Stands in for running random search: on one problem it always misses, on the other every `hit_every`th is near.

    Attributes:
        asked: The comparisons.
    """

    def __init__(self, hit_every: int) -> None:
        """Begin without a comparison."""
        self.asked: list[RegretBenchmark] = []
        self._hit_every = hit_every

    def __call__(self, comparison: RegretBenchmark) -> list[Outcome]:
        """Return the outcomes of all runs."""
        self.asked.append(comparison)
        return [self._outcome(problem, seed) for problem, _, seed in comparison.runs]

    def _outcome(self, problem: str, seed: int) -> Outcome:
        is_near = problem == CLOSE and seed % self._hit_every == 0
        return Outcome(problem, CONTROL, seed, CONTROL_BUDGET, NEAR if is_near else 1.01 * NEAR, 0.0, 0.0)


def test_where_it_is_clear_few_runs_settle_it_where_it_is_close_many_do() -> None:
    """No run is done twice, and problems without a gain are not run."""
    runs = Runs(hit_every=2)

    control = settle(Sources(), (CLEAR, CLOSE, FLAT), ROUNDS[-1], runs)

    assert [(CLEAR, CLOSE), (CLOSE,), (CLOSE,)] == [comparison.problems for comparison in runs.asked]
    assert [range(30), range(30, 200), range(200, 1000)] == [comparison.seeds for comparison in runs.asked]
    assert {CLEAR: 30, CLOSE: 1000} == {name: len(misses) for name, misses in control.misses.items()}


@pytest.mark.parametrize(("most_seeds", "seeds"), [(0, []), (5, [range(5)]), (40, [range(30), range(30, 40)])])
def test_no_more_runs_are_done_than_were_asked_for(most_seeds: int, seeds: list[range]) -> None:
    """However close it is."""
    runs = Runs(hit_every=2)

    settle(Sources(), (CLOSE,), most_seeds, runs)

    assert seeds == [comparison.seeds for comparison in runs.asked]


@pytest.mark.parametrize(("misses", "counts"), [((False, True), True), ((False, False, True), False)])
def test_a_problem_counts_for_search_where_random_search_fails_half_of_the_time(
    misses: tuple[bool, ...], counts: bool
) -> None:
    """Half is enough."""
    assert counts == RandomControl({CLOSE: list(misses)}).counts(CLOSE)


def test_what_two_hundred_runs_say_clearly_takes_no_more() -> None:
    """Two of three miss: of thirty runs that is close to one half, of two hundred it is not."""
    runs = Runs(hit_every=3)

    settle(Sources(), (CLOSE,), ROUNDS[-1], runs)

    assert [range(30), range(30, 200)] == [comparison.seeds for comparison in runs.asked]


def test_a_run_as_near_as_two_percent_has_not_missed() -> None:
    """One run in three is near here: the problem counts."""
    control = settle(Sources(), (CLOSE,), 30, Runs(hit_every=3))

    assert 2 / 3 == pytest.approx(control.share(CLOSE))
    assert control.counts(CLOSE)


def test_a_problem_on_which_it_was_not_run_counts() -> None:
    """A problem without control runs is not excluded."""
    assert RandomControl().counts(CLOSE)


def test_the_tables_say_what_was_settled_by_how_many_runs() -> None:
    """The tables have the problems that do not count, too, and how far rivals end from the optimum there."""
    outcomes = [Outcome(name, "ringtune", 0, 200, 0.1, 0.0, 0.0) for name in (CLEAR, CLOSE, FLAT)]
    control = settle(Sources(), (CLEAR, CLOSE, FLAT), 200, Runs(hit_every=1))
    console = Console(width=200, record=True, file=StringIO())

    render(Outcomes(outcomes, problems_of(Sources(), "simulated"), control), console)

    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in console.export_text().splitlines()]
    assert [[CLEAR, "100 %", "30", "yes"], [CLOSE, "0 %", "30", "no"]] == [row for row in rows if row[2:3] == ["30"]]
    assert [[CLEAR, "10.0"], [CLOSE, "10.0"]] == [row for row in rows if row[1:] == ["10.0"]]
