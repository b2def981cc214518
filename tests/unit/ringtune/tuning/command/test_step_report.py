# SPDX-License-Identifier: Apache-2.0
"""The lines that a launched program prints."""

import io
import re

import pytest

from ringtune.tuning.command.results import STEP_REPORT_RESULTS
from ringtune.tuning.command.scores import STEP_LINE, LineScore
from ringtune.tuning.command.step_report import StepReport

KATIB_FILTER = re.compile(r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)", re.ASCII)
"""Default filter of Katib 0.19's metrics collector: `DefaultFilter` in pkg/metricscollector/v1beta1/common."""


def test_a_step_is_printed_so_that_it_is_found_again() -> None:
    """To the digits that matter."""
    stream = io.StringIO()

    StepReport(stream=stream).took(12.3456789)

    assert "ringtune: step_ms=12.3457\n" == stream.getvalue()
    assert [12.3457] == LineScore.of(STEP_LINE, higher_is_better=False).times_ms(stream.getvalue())


@pytest.mark.parametrize("step_ms", [12.3456789, 0.000123456, 1234567.8, 3.0, 1e-7])
def test_katib_reads_the_printed_line(step_ms: float) -> None:
    """The line has one metric for Katib's default filter, step_ms, with the number that was printed."""
    stream = io.StringIO()

    StepReport(stream=stream).took(step_ms)
    found = [(match[1], match[2]) for match in KATIB_FILTER.finditer(stream.getvalue())]

    assert [("step_ms", f"{step_ms:.6g}")] == found
    assert float(found[0][1]) == pytest.approx(step_ms, rel=1e-5)


def test_steps_are_timed() -> None:
    """The time inside counts; the first steps can be left out."""
    stream = io.StringIO()
    report = StepReport(skip=1, stream=stream)

    for _ in range(3):
        with report.step():
            sum(range(1000))

    assert 2 == len(stream.getvalue().splitlines())
    assert all(time_ms > 0 for time_ms in LineScore.of(STEP_LINE, higher_is_better=False).times_ms(stream.getvalue()))


def test_a_step_that_raises_is_not_printed() -> None:
    """A step that raises took no time that could be compared."""
    stream = io.StringIO()

    with pytest.raises(KeyError), StepReport(stream=stream).step():
        raise KeyError

    assert "" == stream.getvalue()


def test_other_ranks_are_silent() -> None:
    """A step is printed once for all ranks."""
    stream = io.StringIO()

    StepReport(rank=1, stream=stream).took(1.0)

    assert "" == stream.getvalue()


def test_a_result_is_printed_so_that_it_is_found_again() -> None:
    """To the last bit, on rank 0 alone."""
    stream = io.StringIO()

    for rank in (0, 1):
        StepReport(rank, stream=stream).result(0.1)

    assert [0.1] == STEP_REPORT_RESULTS.results_in(stream.getvalue())
