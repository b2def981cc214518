# SPDX-License-Identifier: Apache-2.0
"""Runs programs under the mpirun of the environment that runs the tests (`make test-mpi` has one per MPI)."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.integration.hosts import Host
from tests.integration.jobs import Finished, run_job

BIN = Path(sys.executable).parent
PROGRAMS = Path(__file__).resolve().parent / "programs"
# Open MPI refuses root, and more ranks than cores, unless it is told otherwise.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
IS_OPEN_MPI = (BIN / "prterun").exists()
# The hosts of `tests.integration.hosts` have one name and one /dev/shm, by which an MPI takes them for one host.
NO_SHARED_MEMORY = {"OMPI_MCA_btl": "tcp,self", "UCX_TLS": "tcp,self"}
BY_MPI = {"RINGTUNE_TRANSPORT": "mpi"}


def rank_command(program: str, *arguments: str) -> list[str]:
    """Return the command line of one rank."""
    return [sys.executable, str(PROGRAMS / f"{program}.py"), *arguments]


def mpirun(
    ranks: int,
    program: str,
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    launcher: Path = BIN / "mpirun",
) -> Finished:
    """Run a program of this folder's `programs` on several ranks to its end; no process of the job may be left."""
    command = [str(launcher), "-n", str(ranks), *rank_command(program, *arguments)]
    return run_job(command, {**OPEN_MPI, **(environ or {})})


def remote_shell(made: Sequence[Host], folder: Path) -> Path:
    """Make a program that an MPI calls as it would call ssh, for hosts that `hosts` has made."""
    shell = folder / "remote_shell"
    cases = "".join(f"{host.address}) pid={host.init_pid} ;;\n" for host in made)
    enter = 'exec nsenter --target "$pid" --net --mount --pid -- /bin/sh -c "$*"'
    shell.write_text(
        f'#!/bin/sh\nwhile [ "$1" = -x ]; do shift; done\nhost=$1\nshift\ncase $host in\n{cases}esac\n{enter}\n',
        encoding="utf-8",
    )
    shell.chmod(0o755)
    return shell


def mpirun_on(
    made: Sequence[Host],
    ranks_per_host: int,
    folder: Path,
    program: str,
    *arguments: str,
    environ: Mapping[str, str] | None = None,
) -> Finished:
    """Run a program through MPI on hosts made by `hosts`; mpirun is in the first one's network.

    Args:
        made: The hosts.
        ranks_per_host: Number of ranks on each host.
        folder: Folder for files of the launcher. Open MPI's daemons name theirs by process numbers, which are small
            in a host's namespace: those of a job that was killed would be in the way of the next one.
        program: One of this folder's `programs`.
        arguments: Its arguments.
        environ: Variables of the launcher beside those that it needs here.
    """
    shell = remote_shell(made, folder)
    addresses = [host.address for host in made]
    if IS_OPEN_MPI:
        slots = ",".join(f"{address}:{ranks_per_host}" for address in addresses)
        options = ["--host", slots, "--map-by", "slot:oversubscribe", "--prtemca", "plm_ssh_agent", str(shell)]
        options += [option for name in ("PYTHONPATH", *BY_MPI) for option in ("-x", name)]
    else:
        options = ["-hosts", ",".join(addresses), "-ppn", str(ranks_per_host)]
        options += ["-launcher", "ssh", "-launcher-exec", str(shell)]
    command = [str(BIN / "mpirun"), *options, "-n", str(len(made) * ranks_per_host), *rank_command(program, *arguments)]
    in_network = ["nsenter", "--target", str(made[0].init_pid), "--net", "--"]
    return run_job(
        [*in_network, *command], {**OPEN_MPI, **NO_SHARED_MEMORY, **BY_MPI, "TMPDIR": str(folder), **(environ or {})}
    )


@contextmanager
def put_aside(path: Path) -> Iterator[Path]:
    """Give a file another name for a while."""
    aside = path.with_name(f"{path.name}.aside")
    path.rename(aside)
    try:
        yield aside
    finally:
        aside.replace(path)
