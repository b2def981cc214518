# SPDX-License-Identifier: Apache-2.0
"""MPICH: the algorithm of allreduce, where it changes, and when shared memory is copied once.

Names as `mpivars` of MPICH 5.0 lists them; most are in 4.x too, and MPICH ignores those that it does not know. An
algorithm of the general layer is only reached when the device does not choose one of its own first.
"""

from collections.abc import Mapping
from pathlib import Path

from ringtune.tuner import Config

from .engine import DEFAULT, Engine, WinnerFile, choice_knob, shell_file, size_knob

ALGORITHM = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"
DEVICE = "MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE"
SHARED_MEMORY = "MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM"
RELEASE_GATHER = "release_gather"
GENERAL = ("recursive_doubling", "reduce_scatter_allgather", "ring", "tree", "recexch", "recursive_multiplying", "smp")
"""Algorithms above the device. Left out: those that need more settings, a GPU, or only wrap another."""


def _environment(config: Config, folder: Path) -> Mapping[str, str]:
    del folder
    algorithm = str(config["algorithm"])
    if algorithm == RELEASE_GATHER:
        return {SHARED_MEMORY: RELEASE_GATHER}
    return {} if algorithm == DEFAULT else {ALGORITHM: algorithm, DEVICE: "0"}


def _winner_files(config: Config, folder: Path, comment: str) -> tuple[WinnerFile, ...]:
    return (shell_file("mpich.sh", MPICH.variables(config, folder), comment),)


MPICH = Engine(
    name="mpich",
    knobs=(
        choice_knob("algorithm", {name: name for name in (*GENERAL, RELEASE_GATHER)}),
        size_knob("short_message_bytes", 256, 1024**2, 256, ("MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE",)),
        size_knob("tree_chunk_bytes", 4096, 4 * 1024**2, 4096, ("MPIR_CVAR_ALLREDUCE_TREE_PIPELINE_CHUNK_SIZE",)),
        size_knob("single_copy_from_bytes", 1024, 16 * 1024**2, 1024, ("MPIR_CVAR_CH4_IPC_CMA_P2P_THRESHOLD",)),
    ),
    winner_files=_winner_files,
    environment_of=_environment,
    owned={"algorithm": (ALGORITHM, DEVICE, SHARED_MEMORY)},
)
