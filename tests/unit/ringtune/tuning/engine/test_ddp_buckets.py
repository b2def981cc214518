# SPDX-License-Identifier: Apache-2.0
"""Knobs that act on DDP's buckets, and the explanation for people."""

import pytest

from ringtune.tuning.engine.ddp_buckets import MIB, DdpBuckets

NAMES = ("fusion_bytes", "cycle_ms")


@pytest.mark.parametrize("sizes", [(), (25 * MIB, MIB), (300 * MIB, MIB, MIB)])
def test_fusion_is_tuned_where_two_can_be_joined(sizes: tuple[int, ...]) -> None:
    """Gradients one by one, or buckets of which two fit into the largest fusion."""
    buckets = DdpBuckets(sizes)

    assert NAMES == buckets.tunable(NAMES)
    assert not buckets.note


@pytest.mark.parametrize("sizes", [(25 * MIB,), (200 * MIB, 200 * MIB)])
def test_fusion_is_pinned_where_it_cannot_act(sizes: tuple[int, ...]) -> None:
    """One bucket, or none that fits beside another; the note names the option that would change that."""
    buckets = DdpBuckets(sizes)

    assert ("cycle_ms",) == buckets.tunable(NAMES)
    assert "bucket_cap_mb" in buckets.note


def test_the_verdict_names_the_largest_bucket() -> None:
    """The size is in MiB, with the gain that another `bucket_cap_mb` would allow."""
    alone, two = DdpBuckets((25 * MIB,)).nothing_to_tune, DdpBuckets((25 * MIB, MIB)).nothing_to_tune

    assert alone.startswith("nothing to tune under DDP buckets of 25 MiB; a smaller bucket_cap_mb")
    assert two.startswith("nothing to tune under DDP buckets of 25 MiB; fusion_bytes can join these 2 buckets")
    assert not DdpBuckets(()).nothing_to_tune
