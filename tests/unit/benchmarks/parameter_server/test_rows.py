# SPDX-License-Identifier: Apache-2.0
"""A trial's measurements as a row, and rows in a file."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.parameter_server.interface_counters import bytes_in
from benchmarks.parameter_server.rows import read_rows, row_of, write_rows
from benchmarks.parameter_server.trial import ASYNC, DDP, ONE_HOST, SYNC, WORKER, Role, Trial
from tests.unit.benchmarks.parameter_server.rows_of_a_run import measured, rows

COUNTERS = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo:       1       2    0    0    0     0          0         0        3       4    0    0    0     0       0
  eth0: 1234567    1800    0    0    0     0          0         0  7654321    1700    0    0    0     0       0
"""


def test_counters_are_read_by_interface() -> None:
    """Bytes sent come first, and an unknown interface is an error."""
    assert (7_654_321, 1_234_567) == bytes_in(COUNTERS, "eth0")
    with pytest.raises(LookupError, match="no interface 'eth1'"):
        bytes_in(COUNTERS, "eth1")


def test_rates_and_bytes_are_per_second_and_per_gradient_of_each_worker() -> None:
    """Two workers with steps of 100 ms and 16 images; the server carries both gradients."""
    row = row_of(Trial(SYNC, 1, 2, "1gbit"), measured(Trial(SYNC, 1, 2, "1gbit")), 0.0)

    assert (320.0, 10.0, 100.0) == (row.examples_per_s, row.first_steps_per_s, row.step_ms)
    assert ("server0", 2.0) == (row.busiest, row.busiest_mb)


def test_a_server_is_named_where_a_worker_carries_as_much() -> None:
    """Every link carries one gradient if there are as many servers as workers."""
    row = row_of(Trial(SYNC, 2, 2, "1gbit"), measured(Trial(SYNC, 2, 2, "1gbit")), 0.0)

    assert ("server0", 1.0) == (row.busiest, row.busiest_mb)


def test_a_slow_worker_lowers_the_rate_by_its_share() -> None:
    """Rates of asynchronous workers add up, each over its own steps."""
    trial = Trial(ASYNC, 1, 2, ONE_HOST)
    found = measured(trial)
    found["worker1"] = replace(found["worker1"], ends_s=found["worker1"].ends_s[2::3])

    row = row_of(trial, found, 0.0)

    assert pytest.approx(160 + 160 / 3, abs=1e-3) == row.examples_per_s
    assert ("", 0.0) == (row.busiest, row.busiest_mb)


def test_losses_between_points_lie_on_a_line() -> None:
    """Seconds and gradients have a line each; behind the last point its loss stays."""
    row = replace(row_of(Trial(DDP, 0, 2, "1gbit"), measured(Trial(DDP, 0, 2, "1gbit")), 0.0), seconds=1.0)
    row = replace(row, curve=((0.0, 0, 2.0), (0.5, 10, 1.0), (1.5, 20, 0.5)))

    assert [1.5, 0.75, 0.5] == [row.loss_after(seconds, 0) for seconds in (0.25, 1.0, 9.0)]
    assert [1.0, 0.75] == [row.loss_after(gradients, 1) for gradients in (10, 15)]
    assert 0.75 == row.final_loss


def test_rows_survive_their_file(tmp_path: Path) -> None:
    """The same rows in any order are the same bytes."""
    kept = rows()
    write_rows(tmp_path / "one.csv.xz", kept)
    write_rows(tmp_path / "two.csv.xz", reversed(kept))

    assert (tmp_path / "one.csv.xz").read_bytes() == (tmp_path / "two.csv.xz").read_bytes()
    assert sorted(map(repr, kept)) == sorted(map(repr, read_rows(tmp_path / "one.csv.xz")))


def test_a_role_survives_its_line() -> None:
    """A node reads the role that was sent to it."""
    role = Role(Trial(SYNC, 1, 2, "1gbit"), WORKER, 1, Path("folder"), "eth0", "10.77.0.1:29600")

    assert role == Role.from_json(role.to_json())
