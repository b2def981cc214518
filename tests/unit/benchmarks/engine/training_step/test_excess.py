# SPDX-License-Identifier: Apache-2.0
"""The share of an excess: drift cancels, outliers do not count, and the interval narrows with the noise."""

import numpy as np
import pytest

from benchmarks.engine.training_step.excess import share_of_excess

WAYS = ("floor", "ddp", "ringtune")
STEP_MS = {"floor": 100.0, "ddp": 120.0, "ringtune": 108.0}


def rounds_with(noise: float, *, count: int = 40) -> list[dict[str, float]]:
    """Return rounds whose speed drifts by a factor of three while each block has noise of its own."""
    random = np.random.default_rng(1)
    speeds = np.geomspace(1.0, 3.0, count)
    return [{way: STEP_MS[way] * speed * np.exp(random.normal(0.0, noise)) for way in WAYS} for speed in speeds]


def test_the_share_is_exact_without_noise_however_the_machine_drifts() -> None:
    """Blocks of one round share the machine's speed."""
    share = share_of_excess(rounds_with(0.0), "floor", "ddp", "ringtune")

    assert (share.low, share.value, share.high) == pytest.approx((0.4, 0.4, 0.4))


def test_the_interval_holds_the_share_and_narrows_with_the_noise() -> None:
    """The interval is about the truth."""
    wide, narrow = (share_of_excess(rounds_with(noise), "floor", "ddp", "ringtune") for noise in (0.05, 0.01))

    assert wide.low < 0.4 < wide.high
    assert narrow.low < 0.4 < narrow.high
    assert 2 * (narrow.high - narrow.low) < wide.high - wide.low


def test_blocks_that_were_disturbed_do_not_move_the_share() -> None:
    """Blocks took twice as long while the machine was fast, and so no longer than others did later."""
    rounds = rounds_with(0.0)
    for blocks in rounds[:5]:
        blocks["ringtune"] *= 2.0

    assert share_of_excess(rounds, "floor", "ddp", "ringtune").value == pytest.approx(0.4)


def test_few_rounds_are_refused() -> None:
    """Fewer than five rounds leave no interval after trimming."""
    with pytest.raises(ValueError, match=r"4 rounds have no interval; measure at least 5"):
        share_of_excess(rounds_with(0.0, count=4), "floor", "ddp", "ringtune")
