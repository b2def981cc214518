# SPDX-License-Identifier: Apache-2.0
"""Rounds of a run: what is measured, in which order, and what the command line asks for."""

import sys

import pytest

from benchmarks.parameter_server.__main__ import Extent, main
from benchmarks.parameter_server.plan import PLACES, WORKERS
from benchmarks.parameter_server.trial import TENSORFLOW

WHOLE = Extent(6, 8.0, PLACES, WORKERS, 1)


def test_a_round_has_every_trial_once_in_an_order_of_its_own() -> None:
    """Rounds have the same trials but for their seed; all of a round start from the same one."""
    rounds = [[trial.__dict__ | {"seed": 0} for trial in WHOLE.trials(0, number)] for number in (1, 2)]

    assert {7} == {trial.seed for trial in WHOLE.trials(5, 2)}
    assert rounds[0] != rounds[1]
    for trial in rounds[0]:
        assert (1, 1) == (rounds[0].count(trial), rounds[1].count(trial))


def test_tensorflow_takes_part_in_the_first_rounds() -> None:
    """Its processes take long to start: one round by default."""
    by_round = [[trial for trial in WHOLE.trials(3, number) if trial.way == TENSORFLOW] for number in (0, 1)]

    assert [2, 0] == [len(trials) for trials in by_round]


@pytest.mark.parametrize("part", [["--quick"], ["--places", "1gbit"], ["--workers", "2"], ["--tensorflow", "0"]])
def test_a_part_of_a_run_renews_no_page(part: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The page would lose tables: the command says so before it measures."""
    monkeypatch.setattr(sys, "argv", ["benchmarks.parameter_server", "--renew", *part])

    with pytest.raises(SystemExit, match="--renew fills every table"):
        main()
