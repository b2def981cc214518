# SPDX-License-Identifier: Apache-2.0
"""MPICH: the algorithm of allreduce, its chunks, and the size from which memory is copied once.

Names as `mpivars` of MPICH 5.0 lists them; most are in 4.x too, and MPICH ignores those that it does not know. An
algorithm of the general layer is only reached when the device does not choose one of its own first.
"""

from collections.abc import Mapping
from pathlib import Path

from ringtune.tuner import Config

from .engine import DEFAULT, Engine, WinnerFile, choice_knob, shell_file, size_knob

ALGORITHM = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"
DEVICE = "MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE"
TREE = "tree"
ALGORITHMS = ("recursive_doubling", "reduce_scatter_allgather", "ring", TREE, "recursive_multiplying", "smp")
"""Algorithms above the device, each shown to send other messages or to add in another order than the others.

Left out: those that need more settings, a GPU, only wrap another, or send as another does (`recexch`), and the device's
`release_gather`, which MPICH 5.0 does not use. `tests/mpi/test_tune.py`, docs/howto/other_engines.md.
"""


def _environment(config: Config, folder: Path) -> Mapping[str, str]:
    del folder
    algorithm = str(config["algorithm"])
    return {} if algorithm == DEFAULT else {ALGORITHM: algorithm, DEVICE: "0"}


def _effective(config: Config) -> Config:
    """Return a config with the default in place of values that have no effect beside the others."""
    idle = set() if config["algorithm"] == TREE else {"tree_chunk_bytes"}
    return Config({name: DEFAULT if name in idle else value for name, value in config.items()})


def _winner_files(config: Config, folder: Path, comment: str) -> tuple[WinnerFile, ...]:
    return (shell_file("mpich.sh", MPICH.variables(config, folder), comment),)


MPICH = Engine(
    name="mpich",
    knobs=(
        choice_knob("algorithm", {name: name for name in ALGORITHMS}),
        size_knob("tree_chunk_bytes", 4096, 4 * 1024**2, 4096, ("MPIR_CVAR_ALLREDUCE_TREE_PIPELINE_CHUNK_SIZE",)),
        size_knob("single_copy_from_bytes", 1024, 16 * 1024**2, 1024, ("MPIR_CVAR_CH4_IPC_CMA_P2P_THRESHOLD",)),
    ),
    winner_files=_winner_files,
    environment_of=_environment,
    effective=_effective,
    needs={"tree_chunk_bytes": (("algorithm",),)},
    owned={"algorithm": (ALGORITHM, DEVICE)},
)
