# SPDX-License-Identifier: Apache-2.0
"""Words of a round and of a vote: numbers of which only the largest over all ranks survives.

A number that must be equal everywhere travels with its negative: then the largest and the smallest survive.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from torch.nn.parallel import DistributedDataParallel

from ringtune.errors import MismatchError

from .buckets import BucketSizes
from .reducers import reduced_parameters
from .target import Wish

DIGEST_BITS = 62
"""A digest and its negative fit into 64 bits with a sign."""


@dataclass(frozen=True)
class Round:
    """One rank's contribution to a round, or the outcome of the round.

    Attributes:
        step: Steps done at the time of the round.
        wish: The wish of rank 0; None on the others.
        objector: The rank with an objection, or the first of several, or None.
    """

    step: int
    wish: Wish | None
    objector: int | None

    def words(self, world_size: int) -> list[int]:
        """Return the numbers that carry it."""
        wish, objection = self.wish, 0 if self.objector is None else world_size - self.objector
        wished = [0, 0, 0, 0, 0]
        if wish is not None:
            sizes = wish.sizes
            wished = [wish.epoch, sizes.cap_bytes, sizes.first_bytes, int(wish.is_decision), int(wish.is_last)]
        return [self.step, -self.step, objection, *wished]

    @classmethod
    def from_words(cls, words: Sequence[int], world_size: int) -> "Round":
        """Return the outcome.

        Raises:
            MismatchError: If ranks have done different numbers of steps.
        """
        latest, earliest, objection, epoch, cap_bytes, first_bytes, is_decision, is_last = words
        if latest != -earliest:
            raise MismatchError(
                f"ranks have done {-earliest} to {latest} steps at the same time: every rank must call autotune() at "
                "the same step, and do the same synchronised backward passes"
            )
        wish = Wish(epoch, BucketSizes(cap_bytes, first_bytes), bool(is_decision), bool(is_last))
        return cls(latest, wish, world_size - objection if objection else None)


@dataclass(frozen=True)
class Vote:
    """One rank's vote on the buckets that it has built, or the outcome of the vote.

    Attributes:
        digest: Hash of the config and all it acts on, from `digest_of`.
        has_failed: True where this rank, or any in an outcome, could not build them.
    """

    digest: int
    has_failed: bool

    def words(self) -> list[int]:
        """Return the numbers that carry it."""
        return [self.digest, -self.digest, int(self.has_failed)]

    def check_equal(self, words: Sequence[int]) -> "Vote":
        """Return the outcome of this vote.

        Raises:
            MismatchError: If the ranks' digests differ; nothing was brought in force.
        """
        most, least, has_failed = words
        if (most, -least) != (self.digest, self.digest):
            raise MismatchError(
                f"the buckets of this rank would have the hash {self.digest:016x}, those of other ranks have "
                f"{-least:016x} to {most:016x}: the model's parameters or its DDP options differ between ranks"
            )
        return Vote(self.digest, bool(has_failed))


def digest_of(model: DistributedDataParallel, epoch: int, sizes: BucketSizes) -> int:
    """Return the hash of a config and of everything in a model that decides its buckets, below 2^62."""
    shapes = [(str(p.dtype), list(p.shape), list(p.stride())) for p in reduced_parameters(model)]
    flags = [model.find_unused_parameters, model.static_graph, model.gradient_as_bucket_view]
    text = json.dumps([epoch, sizes.cap_bytes, sizes.first_bytes, shapes, flags])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> (64 - DIGEST_BITS)
