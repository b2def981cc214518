# SPDX-License-Identifier: Apache-2.0
"""A tuning run as a tracker shows it: numbers to plot over steps, and texts. Knows no tracker."""

import math

from ringtune.tuner import Config, Phase, Progress, Result, readable_value
from ringtune.tuning.job.callbacks import Moment

PHASE_NUMBERS = tuple(Phase)
"""A phase is plotted as its place in here: warmup 0, baseline 1, search 2, adoption 3, watch 4."""


def progress_numbers(progress: Progress, moment: Moment) -> dict[str, float]:
    """Return the newest window's figures, and the config it was measured under as far as it is numbers."""
    numbers = {"phase": float(PHASE_NUMBERS.index(progress.phase))}
    if progress.score_bytes_per_s is not None:
        numbers["score_bytes_per_s"] = progress.score_bytes_per_s
    if moment.step_ms is not None:
        numbers["step_ms"] = moment.step_ms
    return _finite({**numbers, **_config_numbers(progress.config)})


def result_numbers(result: Result) -> dict[str, float]:
    """Return the decision in numbers, and the config in force; there is a speed-up only where one was shown."""
    numbers = {"adopted": float(result.adopted), "tuning_cost_s": result.cost_s}
    tested: dict[str, float | None] = {}
    if result.speedup is not None:
        tested = {
            "speedup": result.speedup if result.adopted else None,
            "speedup_ci_low": result.ci_low,
            "speedup_ci_high": result.ci_high,
            "speedup_ci_level": result.ci_level,
        }
    known = {name: number for name, number in tested.items() if number is not None}
    return _finite({**numbers, **known, **_config_numbers(result.config)})


def config_texts(config: Config) -> dict[str, str]:
    """Return every knob's value as people read it."""
    return {name: readable_value(name, value) for name, value in config.items()}


def _config_numbers(config: Config) -> dict[str, float]:
    return {f"config/{name}": float(value) for name, value in config.items() if not isinstance(value, str)}


def _finite(numbers: dict[str, float]) -> dict[str, float]:
    return {name: number for name, number in numbers.items() if math.isfinite(number)}
