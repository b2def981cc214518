# SPDX-License-Identifier: Apache-2.0
"""Refusals of impossible measurements, and careful reading of a contestant's output."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.errors import ConfigError, RingtuneError
from ringtune.measuring.bench.comparison import Request
from ringtune.measuring.bench.contestants import BenchEnvironment, Contestant
from ringtune.measuring.bench.launching import launch, rows_in
from ringtune.measuring.bench.results import ResultRow
from ringtune.measuring.bench.timing import Scheme
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient

REQUEST = Request(peers=("none",), ranks=2, sizes_bytes=(1024,), rounds=1, environments=Path())
LINE = '{"way": "a", "workload": "", "bytes": 1024, "ranks": 2, "us_median": 1.5, "us_p99": 2.0}'
ROW = ResultRow(3, "script", "a", "", 1024, 2, 1.5, 2.0)
SCHEME = Scheme((1024,))


def launch_program(code: str, scheme: Scheme = SCHEME) -> list[ResultRow]:
    """Launch a contestant that is a line of Python."""
    contestant = Contestant("script", is_peer=False, command=(sys.executable, "-c", code))
    return launch(contestant, scheme, BenchEnvironment(2, Path(), os.environ), 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranks": 1}, r"-np 1: an allreduce has at least 2 ranks"),
        ({"rounds": 0}, r"--rounds 0: there must be at least 1"),
        ({"sizes_bytes": (1024, 6)}, r"--sizes: 6 bytes are no whole number of float32"),
        ({"sizes_bytes": (0,)}, r"--sizes: 0 bytes are"),
        ({"sizes_bytes": ()}, r"--sizes is empty"),
        ({"json_file": Path("no-such-folder/rows.json")}, r"--json no-such-folder/rows.json: there is no folder"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes: dict[str, object], message: str) -> None:
    """Before anything is launched, with the option and its value."""
    REQUEST.check()

    with pytest.raises(ConfigError, match=message):
        replace(REQUEST, **changes).check()  # type: ignore[arg-type]


def test_rows_are_found_among_what_launchers_write() -> None:
    """Warnings, and lines of JSON that are no rows, are passed over."""
    assert [ROW] == rows_in(f'mpirun: hello\n{LINE}\n{{"other": 1}}\n', 3, "script")


def test_a_contestant_gets_the_scheme_as_its_last_arguments() -> None:
    """A contestant gets the scheme in the form that all of them read."""
    code = f"import sys; assert sys.argv[1:] == {SCHEME.arguments()!r}; print({LINE!r})"

    assert [ROW] == launch_program(code)


def test_a_contestant_that_fails_is_quoted() -> None:
    """The error has the contestant's name, code, command and last words."""
    with pytest.raises(RingtuneError, match=r"(?s)script failed with exit code 7; .*last words"):
        launch_program("import sys; print('last words', file=sys.stderr); sys.exit(7)")


def test_a_contestant_that_skips_a_size_is_no_result() -> None:
    """A contestant without a size would leave an unseen hole in its column."""
    with pytest.raises(RingtuneError, match=r"script has measured nothing, not 1024 bytes"):
        launch_program("")


def test_a_contestant_that_skips_a_workload_is_no_result() -> None:
    """A size that happens to have as many bytes does not stand for it."""
    scheme = Scheme((1024,), (Workload("small", (WorkloadGradient("w", 256),)),))

    with pytest.raises(RingtuneError, match=r"script has measured 1024 bytes, not 1024 bytes, small 1024 bytes"):
        launch_program(f"print({LINE!r})", scheme)


def test_workloads_need_no_sizes() -> None:
    """One of the two is enough."""
    replace(REQUEST, sizes_bytes=(), workloads=(Workload("small", (WorkloadGradient("w", 1),)),)).check()
