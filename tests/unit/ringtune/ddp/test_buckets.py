# SPDX-License-Identifier: Apache-2.0
"""Bucket sizes as configs, and the space that is searched."""

import numpy as np
import pytest

from ringtune.ddp.buckets import KIB, MIB, BucketSizes, bucket_space

DEFAULT = BucketSizes(25 * MIB, MIB)


@pytest.mark.parametrize("sizes", [DEFAULT, BucketSizes(41_943, 41_943), BucketSizes(3 * MIB + 1, 1)])
def test_sizes_survive_the_way_through_a_config(sizes: BucketSizes) -> None:
    """A fraction of MiB is exact in binary, so that the baseline keeps its size."""
    assert sizes == BucketSizes.from_config(sizes.to_config())


def test_a_config_has_ddps_own_name_and_unit() -> None:
    """The adopted config can be written into the call of DistributedDataParallel."""
    assert {"bucket_cap_mb": 25.0, "first_bucket_bytes": MIB} == dict(DEFAULT.to_config())


@pytest.mark.parametrize(
    ("caps", "sizes", "applied"),
    [
        ((), BucketSizes(2, 1), ()),
        ((5,), BucketSizes(5, 5), (5, 5)),
        ((5,), BucketSizes(9, 5), (5, 9)),
        ((1, 2, 8), BucketSizes(8, 1), (1, 2, 8)),
        ((1, 2, 8), BucketSizes(16, 3), (3, 4, 16)),
        ((1, 2, 8), BucketSizes(1, 1), (1, 1, 1)),
        ((8, 2, 4), BucketSizes(4, 8), (8, 1, 2)),
    ],
)
def test_a_list_of_sizes_keeps_its_proportions(
    caps: tuple[int, ...], sizes: BucketSizes, applied: tuple[int, ...]
) -> None:
    """The first bucket has its own size, the others scale with the largest, and the sizes as wrapped give the list."""
    assert applied == sizes.applied_to(caps)


def test_the_space_of_a_large_model_is_the_whole_range() -> None:
    """1 to 256 MiB, on a logarithmic scale."""
    cap, first = bucket_space(DEFAULT, 10**10, is_fixed=False).parameters

    assert (1.0, 256.0, "log2") == (cap.low, cap.high, cap.scale)  # type: ignore[union-attr]
    assert (64 * KIB, 64 * MIB) == (first.low, first.high)  # type: ignore[union-attr]


@pytest.mark.parametrize("gradient_bytes", [1, 4 * KIB, MIB, 40 * MIB, 10**10])
@pytest.mark.parametrize("baseline", [DEFAULT, BucketSizes(1, 1), BucketSizes(10**10, 10**10)])
def test_the_baseline_is_legal_and_so_is_all_that_is_suggested(baseline: BucketSizes, gradient_bytes: int) -> None:
    """Configs are legal for any model and any arguments of its wrapper."""
    space = bucket_space(baseline, gradient_bytes, is_fixed=False)
    rng = np.random.default_rng(0)

    configs = [space.random(rng) for _ in range(20)]

    assert space.contains(baseline.to_config())
    assert all(BucketSizes.from_config(space.validate(config)).cap_bytes >= 0 for config in configs)
    assert 2 == len(space.free)


def test_a_small_model_can_be_cut() -> None:
    """The buckets of a small model can be smaller than the least of large models."""
    cap, _ = bucket_space(DEFAULT, 2 * MIB, is_fixed=False).parameters

    assert 0.125 == cap.low  # type: ignore[union-attr]


def test_where_nothing_can_be_tuned_nothing_is_free() -> None:
    """The baseline is then the only legal config."""
    space = bucket_space(DEFAULT, MIB, is_fixed=True)

    assert () == space.free
    assert DEFAULT.to_config() == space.default()
