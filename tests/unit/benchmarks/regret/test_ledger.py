# SPDX-License-Identifier: Apache-2.0
"""What windows took, next to what the baseline would have."""

import pytest

from benchmarks.regret.ledger import Ledger
from benchmarks.regret.table import TableProblem
from ringtune.tuner import WindowSpec
from tests.unit.benchmarks.regret.test_table import KIB, TABLE, config

PROBLEM = TableProblem(TABLE, has_noise=False)


def test_slower_steps_are_a_slow_down_and_later_ones_a_cost() -> None:
    """Of two windows the second begins after the first minute; settling steps count."""
    ledger = Ledger(PROBLEM.target(0), PROBLEM.baseline_ms)
    next(ledger.windows(WindowSpec(ledger.apply(config(64 * KIB, 1.0)), 0, 6000, 0.0)))

    next(ledger.windows(WindowSpec(ledger.apply(config(1024 * KIB, 1.0)), 2, 98, 0.0)))

    assert (60.0 + 4.0) / (60.0 + 1.0) - 1.0 == pytest.approx(ledger.slow_down)
    assert 0.75 == pytest.approx(ledger.later_cost)
