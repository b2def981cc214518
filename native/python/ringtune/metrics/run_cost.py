# SPDX-License-Identifier: Apache-2.0
"""Cost so far of a tuning run, counted from its records as the tuner counts it for the result."""

import math
from collections.abc import Mapping
from statistics import median

from ringtune.tuner import Phase, Value, VoidReason
from ringtune.tuner.logs.records import SampleRecord
from ringtune.tuner.policy_numbers import POLICY

_Key = tuple[tuple[str, Value], ...]


class RunCost:
    """Seconds lost to the configs that a run has tried, against the config that was in force when it began."""

    def __init__(self, reference: Mapping[str, Value]) -> None:
        """Count against `reference`, whose own steps cost 0 s."""
        self._reference = _key_of(reference)
        self._reference_ms: list[float] = []
        self._explored: dict[_Key, tuple[int, float]] = {}
        self._epoch: int | None = None

    def add(self, record: SampleRecord) -> None:
        """Count a window, with the steps that a switch took to settle."""
        steps = record.steps + (POLICY.settle_steps if self._epoch not in {None, record.epoch} else 0)
        self._epoch = record.epoch
        config, mean_ms = _key_of(record.config), record.step_ms["mean"]
        if record.phase == Phase.WATCH or record.reason == VoidReason.PAUSE or not _is_time(mean_ms):
            return
        if config != self._reference:
            before, spent_ms = self._explored.get(config, (0, 0.0))
            self._explored[config] = before + steps, spent_ms + steps * mean_ms
        elif record.valid and record.phase != Phase.WARMUP:
            self._reference_ms.append(record.step_ms["median"])

    @property
    def seconds(self) -> float:
        """Time lost so far, seconds; below zero when the tried configs were faster on the whole."""
        if not self._reference_ms:
            return 0.0
        reference_ms = median(self._reference_ms)
        return sum((spent_ms - steps * reference_ms) * 1e-3 for steps, spent_ms in self._explored.values())


def _key_of(config: Mapping[str, Value]) -> _Key:
    return tuple(sorted(config.items()))


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
