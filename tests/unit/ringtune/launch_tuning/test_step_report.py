# SPDX-License-Identifier: Apache-2.0
"""The lines that a launched program prints."""

import io

import pytest

from ringtune.launch_tuning.results import results_in
from ringtune.launch_tuning.scores import STEP_LINE, LineScore
from ringtune.launch_tuning.step_report import StepReport


def test_a_step_is_printed_so_that_it_is_found_again() -> None:
    """To the digits that matter."""
    stream = io.StringIO()

    StepReport(stream=stream).took(12.3456789)

    assert "ringtune: step_ms=12.3457\n" == stream.getvalue()
    assert [12.3457] == LineScore.of(STEP_LINE, higher_is_better=False).times_ms(stream.getvalue())


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

    assert [0.1] == results_in(stream.getvalue())
