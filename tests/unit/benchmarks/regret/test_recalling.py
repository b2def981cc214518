# SPDX-License-Identifier: Apache-2.0
"""Runs of one seed at several budgets: the designer is asked once, and says what it would have said."""

from collections.abc import Sequence

import pytest

from benchmarks.regret.knowledge import nothing
from benchmarks.regret.problems import Sources, all_problems
from benchmarks.regret.recalling import RecallingDesigner
from benchmarks.regret.rivals import policy
from ringtune.tuner import Trial, default_config, make_designer, search_space
from ringtune.tuner.testing import measured_trial

SPACE = search_space({}, default_config())
FIRST = [measured_trial(0, default_config(), [20.0, 20.1])]
SECOND = [measured_trial(0, default_config(), [20.0, 20.1, 20.2])]


def test_what_was_asked_before_is_answered_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other trials are another question; the designer hears of trials only when it must answer."""
    designer = make_designer("gp", SPACE, 0)
    heard: list[tuple[Trial, ...]] = []
    update = designer.update

    def listen(trials: Sequence[Trial]) -> None:
        heard.append(tuple(trials))
        update(trials)

    monkeypatch.setattr(designer, "update", listen)
    recalling = RecallingDesigner(designer)

    recalling.update(FIRST)
    asked = [recalling.suggest(), recalling.suggest()]
    recalling.update(SECOND)
    recalling.update(FIRST)
    again = recalling.suggest()
    known = [tuple(FIRST)] * len(heard)
    recalling.update(SECOND)
    recalling.predict([default_config()])

    assert asked == [again, again]
    assert known == heard[:-1]
    assert tuple(SECOND) == heard[-1]


def test_budgets_together_pick_what_each_picks_alone() -> None:
    """On a noisy job, with the Gaussian process."""
    problem = all_problems(Sources())["manysmall_np2"]
    rival = policy("gp", nothing)

    together = rival(problem, (60, 120), 3)

    assert {60: rival(problem, (60,), 3)[60], 120: rival(problem, (120,), 3)[120]} == together
