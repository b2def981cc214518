# SPDX-License-Identifier: Apache-2.0
"""Deploy test: the machines that choose, the machines that judge, and the worth elsewhere of one machine's luck."""

import csv
import gzip
from pathlib import Path

import pytest

from benchmarks.tuner.measured.deployed import LEAST_MACHINES, choices, read_runs

MACHINES = [str(number) for number in range(LEAST_MACHINES)]
RUNS = {
    "0": dict.fromkeys(MACHINES, 100.0),
    "steady": dict.fromkeys(MACHINES, 150.0),
    "lucky": dict.fromkeys(MACHINES, 100.0) | {"3": 180.0},
}
"""The default, a config that is faster everywhere, and one that one machine saw fast."""


def test_one_machine_takes_what_was_fast_there() -> None:
    """The lucky config is chosen on one machine of seven, and has no gain on the others."""
    found = list(choices(RUNS, 1))

    assert len(MACHINES) == len(found)
    lucky, steady = found[3], [*found[:3], *found[4:]]
    assert pytest.approx(0.8) == lucky.seen
    assert 0.0 == lucky.elsewhere
    assert [pytest.approx(0.5)] * len(steady) == [choice.seen for choice in steady]
    assert [pytest.approx(0.5)] * len(steady) == [choice.elsewhere for choice in steady]
    assert [pytest.approx(0.5)] * len(found) == [choice.best for choice in found]


def test_several_machines_keep_the_default_where_pairs_do_not_agree() -> None:
    """The steady config is adopted by all pairs; without it, one machine's luck passes in none."""
    assert all(choice.is_adopted and choice.elsewhere == pytest.approx(0.5) for choice in choices(RUNS, 2))

    without = {config: of for config, of in RUNS.items() if config != "steady"}
    found = list(choices(without, 3))
    assert not any(choice.is_adopted for choice in found)
    assert {0.0} == {choice.elsewhere for choice in found}


def test_configs_that_failed_or_ran_on_few_machines_are_left_out(tmp_path: Path) -> None:
    """Their rows are in the file all the same."""
    path = tmp_path / "tuna_x.csv.gz"
    rows = [(config, machine, value) for config, of in RUNS.items() for machine, value in of.items()]
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("suggestion", "worker", "performance"))
        writer.writerows([*rows, ("rare", "0", 900.0), *(("failed", machine, 0.0) for machine in MACHINES)])

    assert read_runs(path) == RUNS
