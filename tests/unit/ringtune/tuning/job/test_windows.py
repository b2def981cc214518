# SPDX-License-Identifier: Apache-2.0
"""Windows made from the ends of steps."""

from collections.abc import Iterable

import pytest

from ringtune.tuner import VoidReason, Window, WindowSpec
from ringtune.tuning.job.windows import StepEnd, WindowBuilder

BYTES, TENSOR_SET = 4096, 77


def ends(step_ms: Iterable[float], epoch: int = 0, first: int = 0, start_s: float = 0.0) -> list[StepEnd]:
    """Return the ends of steps of these durations, after an end at `start_s`."""
    found = [StepEnd(first, start_s, epoch)]
    for ms in step_ms:
        found.append(StepEnd(found[-1].step + 1, found[-1].end_s + ms * 1e-3, epoch))
    return found


def windows_of(builder: WindowBuilder, steps: Iterable[StepEnd]) -> list[Window]:
    """Return the windows that the steps close."""
    return [window for window in map(builder.add, steps) if window is not None]


def opened(*, epoch: int = 0, settle_steps: int = 0, steps: int = 3, limit_ms: float = 0.0) -> WindowBuilder:
    """Return a builder with a window begun."""
    builder = WindowBuilder(BYTES, TENSOR_SET)
    builder.begin(WindowSpec(epoch, settle_steps, steps, limit_ms))
    return builder


def test_a_window_has_the_durations_after_the_settling_steps() -> None:
    """The first end begins a step; settling steps are skipped; the next window waits to be begun."""
    builder = opened(settle_steps=2)

    (window,) = windows_of(builder, ends([9, 8, 1, 2, 3, 4, 5]))

    assert (1.0, 2.0, 3.0) == pytest.approx(window.step_ms)
    assert (0, BYTES, TENSOR_SET) == (window.epoch, window.bytes_per_step, window.tensor_set)
    assert (None, False) == (window.void_reason, window.was_cut)


def test_the_step_that_saw_the_switch_does_not_count() -> None:
    """The step of the switch ends under the new epoch and contains the change of the buckets."""
    builder = opened(epoch=1, steps=2)
    before = ends([5, 5], epoch=0)
    after = ends([50, 1, 2], epoch=1, first=2, start_s=before[-1].end_s)[1:]

    (window,) = windows_of(builder, [*before, *after])

    assert (1.0, 2.0) == pytest.approx(window.step_ms)


def test_another_epoch_in_the_midst_voids_the_window() -> None:
    """Steps of two configs are no sample of either."""
    builder = opened(steps=5)
    before = ends([1, 1])
    after = ends([1], epoch=1, first=2, start_s=before[-1].end_s)[1:]

    (window,) = windows_of(builder, [*before, *after])

    assert VoidReason.MIXED_EPOCHS is window.void_reason


@pytest.mark.parametrize(("pause_ms", "reason"), [(1100, VoidReason.PAUSE), (900, None)])
def test_a_pause_voids_the_window(pause_ms: float, reason: VoidReason | None) -> None:
    """A gap above a second and five times the median is an evaluation or a checkpoint; a shorter one is a step."""
    builder = opened(steps=10)

    (window,) = windows_of(builder, ends([100] * 8 + [pause_ms] + [100]))

    assert reason is window.void_reason


def test_a_gap_of_less_than_five_medians_is_no_pause() -> None:
    """A gap of two seconds is no pause if steps take half a second."""
    builder = opened(steps=7)

    (window,) = windows_of(builder, ends([500] * 6 + [2000]))

    assert window.void_reason is None


def test_pauses_do_not_count_as_usual_steps() -> None:
    """After many pauses a pause is still one."""
    builder = opened(steps=100)
    windows_of(builder, ends([100] * 6 + [9000] * 20))

    builder.begin(WindowSpec(0, 0, 100, 0.0))
    (window,) = windows_of(builder, ends([9000], first=26, start_s=180.6)[1:])

    assert VoidReason.PAUSE is window.void_reason


def test_lost_steps_begin_the_window_again() -> None:
    """The time between two known ends with lost steps between them is not one step."""
    builder = opened(steps=3)
    early, late = ends([1, 1]), ends([2, 2, 2], first=9, start_s=1.0)

    (window,) = windows_of(builder, [*early, *late])

    assert (2.0, 2.0, 2.0) == pytest.approx(window.step_ms)
