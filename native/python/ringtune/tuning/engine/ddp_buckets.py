# SPDX-License-Identifier: Apache-2.0
"""Knobs that can act where gradients come in DDP's buckets: `fusion_bytes` can join buckets, and not split them."""

from collections.abc import Iterable
from dataclasses import dataclass

from ringtune.tuner import ENGINE_PARAMETERS, NumberParameter

MIB = 1024 * 1024
FUSION = "fusion_bytes"


@dataclass(frozen=True)
class DdpBuckets:
    """The buckets of a step.

    Attributes:
        sizes: Sizes in bytes; empty where gradients come one by one.
    """

    sizes: tuple[int, ...]

    @property
    def is_fusion_inert(self) -> bool:
        """True where no value of `fusion_bytes` can join two buckets: there is one, or two are too large together."""
        (most,) = (p.high for p in ENGINE_PARAMETERS if p.name == FUSION and isinstance(p, NumberParameter))
        return len(self.sizes) == 1 or sum(sorted(self.sizes)[:2]) > most

    def tunable(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of a job's tunable knobs that can act on its buckets."""
        return tuple(name for name in names if not (name == FUSION and self.is_fusion_inert))

    @property
    def note(self) -> str:
        """Note for people that `fusion_bytes` is not tuned; empty where it can act."""
        if not self.is_fusion_inert:
            return ""
        return f"{FUSION} is not tuned: under {self._described} there are no two to join; {self._advice}"

    @property
    def nothing_to_tune(self) -> str:
        """The verdict of a run in which no knob is left; empty where gradients come one by one."""
        return f"nothing to tune under {self._described}; {self._advice}" if self.sizes else ""

    @property
    def _described(self) -> str:
        return f"DDP buckets of {max(self.sizes) / MIB:.3g} MiB"

    @property
    def _advice(self) -> str:
        if self.is_fusion_inert:
            return f"a smaller bucket_cap_mb makes more buckets, which {FUSION} can join"
        return f"{FUSION} can join these {len(self.sizes)} buckets where it is not fixed"
