# SPDX-License-Identifier: Apache-2.0
"""Settings to paste: the variables that give a job the chosen config without tuning."""

import shlex
from collections.abc import Mapping

from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameters import ENGINE_PARAMETERS, KIB, MIB

from .summary import HOROVOD, RINGTUNE, RunReview

CACHE_CAPACITY = 1024
"""Horovod's default capacity of an enabled response cache, in entries."""
SWITCHES_OF_HOROVOD = ("hierarchical_allreduce", "hierarchical_allgather", "torus_allreduce")


def settings_to_paste(run: RunReview) -> list[str]:
    """Return lines for a shell or a file of settings; none if there is nothing to set.

    For ringtune's own run they set only the differences from the baseline: a run that keeps the default gives none.
    """
    if run.chosen is None:
        return []
    if run.source != RINGTUNE:
        return _horovod(run, run.chosen) if run.source == HOROVOD else _bagua(run.chosen)
    return _changes(run, run.chosen)


def _changes(run: RunReview, chosen: Config) -> list[str]:
    """Return the differences from the baseline, under the names of the tuned system."""
    baseline: Mapping[str, Value] = run.baseline or {}
    changed = {name: value for name, value in chosen.items() if baseline.get(name) != value}
    if run.target != RINGTUNE:
        return [f"{name}={_text(name, value)}" for name, value in changed.items()]
    known = {parameter.name for parameter in ENGINE_PARAMETERS}
    return [f"{knob_variable(name)}={_text(name, value)}" for name, value in changed.items() if name in known]


def knob_variable(name: str) -> str:
    """Return the environment variable that fixes a parameter of the engine."""
    return f"RINGTUNE_{name.upper()}"


def setting_value(name: str, value: Value) -> str:
    """Return a value in the syntax of a setting: whole sizes with a unit, switches as 1 and 0."""
    if isinstance(value, bool):
        return str(int(value))
    if name.endswith("_bytes") and isinstance(value, int) and value:
        for unit, size in (("MiB", MIB), ("KiB", KIB)):
            if value % size == 0:
                return f"{value // size}{unit}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _text(name: str, value: Value) -> str:
    return shlex.quote(setting_value(name, value))


def _bagua(config: Config) -> list[str]:
    return [f"BAGUA_DEFAULT_BUCKET_SIZE={config['bucket_bytes']}"] if "bucket_bytes" in config else []


def _horovod(run: RunReview, chosen: Config) -> list[str]:
    """Return Horovod's variables; its search tunes switches one after another, and only those that varied are set."""
    values: Mapping[str, Value] = chosen
    lines = []
    if "fusion_bytes" in values:
        lines.append(f"HOROVOD_FUSION_THRESHOLD={values['fusion_bytes']}")
    if "cycle_ms" in values:
        lines.append(f"HOROVOD_CYCLE_TIME={values['cycle_ms']:g}")
    varied = [name for name in chosen if len({sample.config.get(name) for sample in run.tried}) > 1]
    lines += [f"HOROVOD_{name.upper()}={int(values[name])}" for name in SWITCHES_OF_HOROVOD if name in varied]
    if "response_cache" in varied:
        lines.append(f"HOROVOD_CACHE_CAPACITY={CACHE_CAPACITY if values['response_cache'] else 0}")
    return lines
