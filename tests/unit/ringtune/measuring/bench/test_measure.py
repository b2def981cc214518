# SPDX-License-Identifier: Apache-2.0
"""Launching round after round, also with a contestant that does not end."""

import sys
from pathlib import Path

import pytest
from rich.console import Console

from ringtune.measuring.bench import launching
from ringtune.measuring.bench.comparison import measure
from ringtune.measuring.bench.contestants import BenchEnvironment, Contestant
from ringtune.measuring.bench.timing import Scheme

ROW = '{"way": "%s", "workload": "", "bytes": %d, "ranks": 4, "us_median": 1.0, "us_p99": 2.0}'
SIZES = (1024, 65536)


def contestant(name: str, *, is_peer: bool, ends: bool) -> Contestant:
    """Return one that measures both sizes, or the first and then hangs."""
    lines = [ROW % (name, size) for size in SIZES]
    then = f"print({lines[1]!r})" if ends else "time.sleep(600)"
    program = f"import time; print({lines[0]!r}, flush=True); {then}"
    return Contestant(name, is_peer, (sys.executable, "-c", program))


@pytest.fixture
def surroundings(tmp_path: Path) -> BenchEnvironment:
    """Those of two ranks."""
    return BenchEnvironment(2, tmp_path, {})


@pytest.fixture(autouse=True)
def _short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "LAUNCH_LIMIT_S", 6.0)


def test_a_peer_that_does_not_end_keeps_what_it_measured_and_is_launched_no_more(
    surroundings: BenchEnvironment,
) -> None:
    """The others go on, in this round and the next."""
    both = [contestant("engine", is_peer=False, ends=True), contestant("mpich", is_peer=True, ends=False)]

    rows, too_slow = measure(both, Scheme(SIZES), 2, surroundings, Console(quiet=True))

    assert [("mpich", 1024)] == [(row.contestant, row.bytes) for row in rows if row.contestant == "mpich"]
    assert 2 * len(SIZES) == sum(row.contestant == "engine" for row in rows)
    assert 1 == len(too_slow)
    assert "mpich did not end within 6 s" in too_slow[0]


def test_the_engine_must_end(surroundings: BenchEnvironment) -> None:
    """Without the engine's result there is no comparison."""
    with pytest.raises(launching.OverrunError, match="engine did not end"):
        measure([contestant("engine", is_peer=False, ends=False)], Scheme(SIZES), 2, surroundings, Console(quiet=True))
