# SPDX-License-Identifier: Apache-2.0
"""Contestants between hosts: this engine both ways, and the peers that can be started there.

All are started from the first host, and reach the others by the network's remote shell.
"""

import importlib.util
import math
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ringtune.errors import ConfigError

from .contestants import SYSTEM, BenchEnvironment, Contestant, check_peers, divide_peers, find_mpi
from .network import INTERFACE, DelaySwitch, Network
from .programs import DELAY_SWITCH, built

HIERARCHICAL = "hierarchical"
RING = "ring"
_ALGORITHM = "RINGTUNE_ALLREDUCE_ALGORITHM"
_GLOO_PORT = 29_500  # nothing else runs in this network
_GLOO_RANK = "ringtune.measuring.bench.gloo_rank"


def find_network_contestants(
    peers: Collection[str], algorithms: Sequence[str], surroundings: BenchEnvironment, network: Network
) -> tuple[list[Contestant], list[str]]:
    """Return the contestants that can be measured between these hosts, and the reason for each peer that cannot.

    Args:
        peers: Names out of `PEERS`.
        algorithms: Ways of the engine to measure.
        surroundings: Environment in which to look.
        network: The hosts.

    Raises:
        ConfigError: If a name is unknown.
    """
    check_peers(peers)
    engines = [
        _engine(name, variables, network, surroundings.ranks)
        for name, variables in ways_of_the_engine(algorithms, surroundings.settings).items()
    ]
    find = {"gloo": _gloo, "mpich": _mpich, "openmpi": _openmpi, "impi": _impi, "horovod": _horovod}
    found, missing = divide_peers(peers, lambda name: find[name.removeprefix(SYSTEM)](name, network, surroundings))
    start = network.hosts[0].launcher_command
    return [replace(each, command=tuple(start(*each.command))) for each in [*engines, *found]], missing


def find_delay_switch(delay_ms: float, surroundings: BenchEnvironment) -> DelaySwitch | None:
    """Return the switch that adds a delay, compiled now if it is not there yet; None where none is to be added.

    Raises:
        ConfigError: If the delay is negative, or the switch cannot be compiled.
    """
    if not 0.0 <= delay_ms < math.inf:
        raise ConfigError(f"--delay-ms {delay_ms:g} is no delay; give milliseconds, such as 0.5")
    if delay_ms == 0.0:
        return None
    return DelaySwitch(built(DELAY_SWITCH, surroundings.compiler, surroundings.cleaned), delay_ms)


def ways_of_the_engine(algorithms: Sequence[str], settings: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the engine's variables by its name in the table, with `--set` and without.

    Args:
        algorithms: Names of algorithms, and `auto`.
        settings: Further variables of the ways "as set".
    """
    ways = {name: {_ALGORITHM: name} for name in algorithms}
    as_set = {f"{name} as set": {**variables, **settings} for name, variables in ways.items()}
    return {**ways, **as_set} if settings else ways


def _engine(name: str, variables: Mapping[str, str], network: Network, ranks: int) -> Contestant:
    command = (*_run(network, ranks), sys.executable, "-m", "ringtune.measuring.bench.network_rank", name)
    # A table of this network, for `auto`: the user's own is of another one.
    own_table = {"XDG_CACHE_HOME": str(network.remote_shell.parent)}
    return Contestant(name, is_peer=False, command=command, variables={**own_table, **variables})


def _run(network: Network, ranks: int) -> tuple[str, ...]:
    remote = ("-H", network.places(ranks), "--rsh", str(network.remote_shell), "--no-prefix-output")
    return (sys.executable, "-m", "ringtune.cli", "run", "-np", str(ranks), *remote)


def _gloo(name: str, network: Network, surroundings: BenchEnvironment) -> Contestant | str:
    """Return torch.distributed over Gloo: `ringtune run` starts a torchrun on each host."""
    if importlib.util.find_spec("torch") is None:
        return f"{sys.executable} has no torch, which brings it"
    hosts = len(network.hosts)
    meeting = f"--master-addr {network.hosts[0].address} --master-port {_GLOO_PORT}"
    ranks = f"--nnodes {hosts} --node-rank $RINGTUNE_RANK --nproc-per-node {surroundings.ranks // hosts}"
    script = f'exec {shlex.quote(sys.executable)} -m torch.distributed.run {meeting} {ranks} -m {_GLOO_RANK} "$@"'
    command = (*_run(network, hosts), "sh", "-c", f"export GLOO_SOCKET_IFNAME={INTERFACE}; {script}", "sh")
    return Contestant(name, is_peer=True, command=command)


def _mpich(name: str, network: Network, surroundings: BenchEnvironment) -> Contestant | str:
    reach = ("-launcher", "rsh", "-launcher-exec", str(network.remote_shell), "-iface", INTERFACE)
    return _mpi(name, surroundings, (*reach, "-hosts", network.places(surroundings.ranks)), {})


def _openmpi(name: str, network: Network, surroundings: BenchEnvironment) -> Contestant | str:
    shell = str(network.remote_shell)
    version_4 = {"OMPI_MCA_plm_rsh_agent": shell, "OMPI_MCA_oob_tcp_if_include": INTERFACE}
    version_5 = {"PRTE_MCA_plm_ssh_agent": shell, "PRTE_MCA_prte_if_include": INTERFACE}
    options = ("--bind-to", "none", "--host", network.places(surroundings.ranks))
    return _mpi(name, surroundings, options, {**version_4, **version_5, "OMPI_MCA_btl_tcp_if_include": INTERFACE})


def _impi(_name: str, _network: Network, _surroundings: BenchEnvironment) -> str:
    return "between such hosts its ranks start, but MPI_Init fails (MPIDI_OFI_mpi_init_hook, Intel MPI 2021.18)"


def _horovod(_name: str, _network: Network, _surroundings: BenchEnvironment) -> str:
    return "its launcher reaches hosts by ssh alone"


def _mpi(
    name: str, surroundings: BenchEnvironment, options: tuple[str, ...], variables: Mapping[str, str]
) -> Contestant | str:
    mpi = find_mpi(name, surroundings)
    if isinstance(mpi, str):
        return mpi
    command = (str(mpi.mpirun), *options, "-n", str(surroundings.ranks), str(mpi.program), name)
    return Contestant(name, is_peer=True, command=command, variables={**mpi.variables, **variables})
