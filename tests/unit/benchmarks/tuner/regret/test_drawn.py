# SPDX-License-Identifier: Apache-2.0
"""Jobs drawn by a rule: within their ranges, the same each time, and kept where something is to be gained."""

import itertools
from collections import Counter

import pytest

from benchmarks.tuner.regret.drawn import (
    COMPUTE_MS,
    JOBS,
    KIND,
    MOST_DRAWS,
    QUESTIONS,
    draw,
    drawn_problems,
    gain_of,
    kept_draws,
)
from benchmarks.tuner.regret.problem import FLAT_GAIN
from ringtune.tuner import default_config
from ringtune.tuner.simulator import Scenario


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_draw_lies_within_its_ranges(question: str) -> None:
    """Jobs begin with the default that ships, and none is drawn twice."""
    ranges = QUESTIONS[question]
    drawn = [draw(question, number) for number in range(MOST_DRAWS)]

    assert drawn == [draw(question, number) for number in range(MOST_DRAWS)]
    assert MOST_DRAWS == len({scenario.name for scenario in drawn})
    for scenario in drawn:
        cluster, target = scenario.cluster, scenario.target(0)
        assert ranges.hosts[0] <= cluster.hosts <= ranges.hosts[1]
        assert ranges.ranks_per_host[0] <= cluster.ranks_per_host <= ranges.ranks_per_host[1]
        assert ranges.latency_us[0] <= cluster.link.latency_us <= ranges.latency_us[1]
        assert COMPUTE_MS[0] <= target.job.compute_ms <= COMPUTE_MS[1]
        assert default_config(cluster.layout) == target.baseline()


def test_a_question_ends_with_enough_jobs_or_after_enough_draws() -> None:
    """Two questions ask something in every second draw, the others in none."""
    asking = list(QUESTIONS)[:2]
    numbers = itertools.count()
    tried: list[str] = []

    def gain(scenario: Scenario) -> float:
        tried.append(scenario.name)
        is_asking = any(question in scenario.name for question in asking)
        return FLAT_GAIN if is_asking and next(numbers) % 2 else 0.0

    kept = list(kept_draws(gain))

    assert [(question, 2 * n + 1, FLAT_GAIN) for question in asking for n in range(JOBS)] == kept
    assert 2 * 2 * JOBS + 3 * MOST_DRAWS == len(tried)


def test_the_kept_jobs_are_those_of_the_rule() -> None:
    """The file has no more of a question than the rule keeps; the smallest job has something to gain."""
    problems = drawn_problems()

    kept = Counter(question for question in QUESTIONS for problem in problems if question in problem.name)
    assert len(problems) == kept.total()
    assert JOBS == max(kept.values())
    assert {KIND} == {problem.kind for problem in problems}
    assert not any(problem.is_flat for problem in problems)
    smallest = min(problems, key=lambda problem: problem.scenario.cluster.world_size)
    assert gain_of(smallest.scenario) >= FLAT_GAIN
