# SPDX-License-Identifier: Apache-2.0
"""Bucket sizes of DDP in bytes and as the tuner's config, and the search space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringtune.tuner import Config, NumberParameter, SearchSpace, Value

KIB = 1024
MIB = 1024 * KIB
CAP = "bucket_cap_mb"
FIRST = "first_bucket_bytes"

LEAST_CAP_BYTES = MIB
MOST_CAP_BYTES = 256 * MIB
LEAST_FIRST_BYTES = 64 * KIB
MOST_FIRST_BYTES = 64 * MIB
FIRST_STEP_BYTES = 4 * KIB
SMALL_MODEL_BUCKETS = 16
"""Number of buckets that a model may be cut into although it is small for the ranges above."""


@dataclass(frozen=True)
class BucketSizes:
    """Bucket sizes: a bucket is closed once it holds that many bytes.

    Attributes:
        cap_bytes: Size of every bucket but the first; of the largest one under `bucket_cap_mb_list`.
        first_bytes: Size of the first bucket, whose reduction begins the overlap with the backward pass.
    """

    cap_bytes: int
    first_bytes: int

    @classmethod
    def from_config(cls, config: Mapping[str, Value]) -> "BucketSizes":
        """Return the sizes that a config stands for; DDP counts MiB in 2^20 bytes and cuts fractions off."""
        return cls(int(float(config[CAP]) * MIB), int(config[FIRST]))

    def applied_to(self, caps_bytes: Sequence[int]) -> tuple[int, ...]:
        """Return a size for each bucket, in the proportions of those that a model was wrapped with.

        Args:
            caps_bytes: Sizes by `bucket_cap_mb_list`; the last holds for all further buckets. None: an empty tuple.
        """
        if not caps_bytes:
            return ()
        largest = max(caps_bytes)
        others = [max(1, cap * self.cap_bytes // largest) for cap in caps_bytes[1:]]
        return (self.first_bytes, *(others or [self.cap_bytes]))

    def words(self) -> tuple[int, int]:
        """Return the sizes as numbers."""
        return self.cap_bytes, self.first_bytes

    def to_config(self) -> Config:
        """Return the config that stands for these sizes."""
        return Config({CAP: self.cap_bytes / MIB, FIRST: self.first_bytes})


def bucket_space(baseline: BucketSizes, gradient_bytes: int, *, is_fixed: bool) -> SearchSpace:
    """Return the space to search.

    Args:
        baseline: Always legal, also where it lies outside of the usual ranges.
        gradient_bytes: Size of all gradients: a larger bucket is the same as one of this size.
        is_fixed: Whether the baseline is the only legal config.
    """
    share = gradient_bytes // SMALL_MODEL_BUCKETS
    least_cap = min(LEAST_CAP_BYTES, max(share, KIB), baseline.cap_bytes)
    most_cap = max(min(MOST_CAP_BYTES, gradient_bytes), 2 * least_cap, baseline.cap_bytes)
    least_first = min(LEAST_FIRST_BYTES, max(share, FIRST_STEP_BYTES), baseline.first_bytes)
    most_first = max(min(MOST_FIRST_BYTES, gradient_bytes), 2 * least_first, baseline.first_bytes)
    config = baseline.to_config()
    parameters = (
        NumberParameter(CAP, least_cap / MIB, most_cap / MIB, config[CAP], scale="log2"),
        NumberParameter(FIRST, least_first, most_first, config[FIRST], scale="log2", step=FIRST_STEP_BYTES),
    )
    return SearchSpace(parameters, config if is_fixed else {})
