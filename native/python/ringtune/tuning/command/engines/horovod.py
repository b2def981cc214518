# SPDX-License-Identifier: Apache-2.0
"""Horovod 0.28 (and programs that read its variables): fusion, cycle, response cache, hierarchy.

Its own autotuner would change the same values while a trial is measured, so a trial turns that off. Horovod then
leaves both hierarchies off (`BackgroundThreadLoop` in horovod/common/operations.cc): "on" is their one other value.
"""

from collections.abc import Mapping
from pathlib import Path

from ringtune.tuner import Config, NumberParameter

from .engine import DEFAULT, Engine, Knob, WinnerFile, choice_knob, shell_file, size_knob

AUTOTUNE = "HOROVOD_AUTOTUNE"
MIB = 1024**2


def _environment(config: Config, folder: Path) -> Mapping[str, str]:
    del folder
    return {} if all(value == DEFAULT for value in config.values()) else {AUTOTUNE: "0"}


def _winner_files(config: Config, folder: Path, comment: str) -> tuple[WinnerFile, ...]:
    return (shell_file("horovod.sh", HOROVOD.variables(config, folder), comment),)


_CYCLE = NumberParameter("cycle_ms", 0.1, 100.0, DEFAULT, scale="log", special=(DEFAULT,))
HOROVOD = Engine(
    name="horovod",
    knobs=(
        size_knob("fusion_bytes", MIB // 16, 512 * MIB, MIB // 16, ("HOROVOD_FUSION_THRESHOLD",)),
        Knob(_CYCLE, ("HOROVOD_CYCLE_TIME",)),
        size_knob("cache_capacity", 16, 16384, 1, ("HOROVOD_CACHE_CAPACITY",)),
        choice_knob("hierarchical_allreduce", {"on": "1"}, ("HOROVOD_HIERARCHICAL_ALLREDUCE",)),
        choice_knob("hierarchical_allgather", {"on": "1"}, ("HOROVOD_HIERARCHICAL_ALLGATHER",)),
    ),
    winner_files=_winner_files,
    is_for_gpus=True,
    environment_of=_environment,
)
