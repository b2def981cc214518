# SPDX-License-Identifier: Apache-2.0
"""Tests of the backward pass: when gradients are submitted while communication takes cores from it."""

import pytest

from ringtune.tuner.simulator import Cluster
from ringtune.tuner.simulator.backward import Backward
from ringtune.tuner.simulator.collectives import Duration

ROOMY = Cluster(1, 2, 8)
TIGHT = Cluster(1, 2, 2)


def busy(ms: float) -> Duration:
    """Return something that keeps a core busy throughout."""
    return Duration(ms, ms)


def test_an_undisturbed_pass_submits_on_time() -> None:
    """Gradients come at their progress, counted from the pass's begin."""
    backward = Backward((1.0, 3.0, 6.0), 10.0, TIGHT, 1.0)

    assert [11.0, 13.0, 16.0] == [backward.submitted_ms(number) for number in range(3)]
    assert 16.0 == backward.end_ms


def test_communication_on_free_cores_disturbs_nobody() -> None:
    """Both go at their own speed if every thread has a core."""
    backward = Backward((2.0, 8.0), 0.0, ROOMY, 1.0)

    end_ms = backward.run_beside(1.0, lambda stretch: busy(3.0 * stretch))

    assert 4.0 == end_ms
    assert [2.0, 8.0] == [backward.submitted_ms(0), backward.submitted_ms(1)]


def test_communication_on_a_shared_core_slows_both_down() -> None:
    """Two threads to a core: an allreduce of 2 ms takes 4 ms, in which the pass gets 2 ms done."""
    backward = Backward((2.0, 8.0), 0.0, TIGHT, 1.0)

    end_ms = backward.run_beside(1.0, lambda stretch: busy(2.0 * stretch))

    assert 5.0 == end_ms
    assert 3.0 == backward.submitted_ms(0)  # 1 ms alone, then 1 ms at half its speed
    assert 10.0 == backward.submitted_ms(1)


def test_waiting_for_the_wire_takes_no_core() -> None:
    """An allreduce that works for a quarter of its time takes a fifth of the pass's speed."""
    backward = Backward((8.0,), 0.0, TIGHT, 1.0)

    backward.run_beside(0.0, lambda stretch: Duration(4.0, 1.0))

    assert 8.0 + 4.0 * (1.0 - 1.0 / 1.25) == pytest.approx(backward.end_ms)


def test_an_accelerator_is_not_disturbed() -> None:
    """An accelerator computes on no core."""
    backward = Backward((8.0,), 0.0, Cluster(1, 8, 1), 0.0)

    backward.run_beside(0.0, busy)

    assert 8.0 == backward.end_ms


def test_what_outlasts_the_pass_goes_on_at_full_speed() -> None:
    """2 of 4 ms are done at half speed while the pass ends; the other 2 take 2 ms."""
    backward = Backward((2.0,), 0.0, TIGHT, 1.0)

    end_ms = backward.run_beside(0.0, lambda stretch: busy(4.0 * stretch))

    assert 4.0 == backward.end_ms
    assert 6.0 == end_ms


def test_after_the_pass_only_communication_counts() -> None:
    """Ranks alone on their cores communicate undisturbed."""
    backward = Backward((2.0,), 0.0, TIGHT, 1.0)

    assert 8.0 == backward.run_beside(5.0, lambda stretch: busy(3.0 * stretch))
    assert 2.0 == backward.end_ms


def test_nothing_takes_no_time() -> None:
    """An allreduce of no length ends when it begins."""
    backward = Backward((2.0,), 0.0, TIGHT, 1.0)

    assert 1.0 == backward.run_beside(1.0, lambda stretch: busy(0.0))
