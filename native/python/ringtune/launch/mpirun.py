# SPDX-License-Identifier: Apache-2.0
"""`--mpi`: the command line and environment by which an MPI's launcher starts the ranks. Runs `mpirun --version`."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap import terminal
from ringtune.meeting.rendezvous.interfaces import route_address
from ringtune.system.usable_cores import usable_cores

from .addresses import is_this_machine
from .environment import KEPT_PREFIXES, PLACE_NAMES, forwarded
from .hosts import HostShare
from .plan import LaunchPlan
from .rank_streams import RankStreams

PROGRAM = "mpirun"
LOCALHOST = "localhost"
VERSION_LIMIT_S = 30.0
FIRST_PRRTE = 5
"""The first Open MPI that starts ranks by PRRTE, which has other names for the same options."""


class MpiFamily(Enum):
    """Launchers that take the same options."""

    OPEN_MPI_4 = "Open MPI before 5"
    OPEN_MPI_5 = "Open MPI"
    HYDRA = "MPICH's Hydra"


@dataclass(frozen=True)
class Mpirun:
    """The launcher that was found.

    Attributes:
        path: Absolute, by which Open MPI finds its own parts on other hosts, too.
        family: The set of options that it takes.
    """

    path: str
    family: MpiFamily


@dataclass(frozen=True)
class MpiOptions:
    """Options of `ringtune run` that mpirun itself has to act on.

    Attributes:
        mpi_args: More arguments, split as a shell would, after all others.
        binding_args: Arguments for binding; None leaves ranks unbound and fills host after host.
        ssh_port: Port of the SSH servers; None leaves it to ssh's configuration.
        ssh_identity: File of the private key; None leaves it to ssh's configuration.
        interfaces: Network interfaces that MPI may use; none leaves it to MPI.
        output_folder: Folder for each rank's output, in the launcher's own layout.
    """

    mpi_args: str = ""
    binding_args: str | None = None
    ssh_port: int | None = None
    ssh_identity: Path | None = None
    interfaces: Sequence[str] = ()
    output_folder: str | None = None


def find_mpirun(search_path: str | None) -> Mpirun:
    """Return the mpirun that stands first in a PATH.

    Raises:
        ConfigError: If there is none, or it is of an MPI whose options are not known here.
    """
    path = shutil.which(PROGRAM, path=search_path)
    if path is None:
        raise ConfigError("--mpi: there is no mpirun in PATH; install an MPI and mpi4py, or leave --mpi out")
    try:
        shown = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=VERSION_LIMIT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"--mpi: {path} --version cannot be run ({error}); use another MPI, or no --mpi") from error
    return Mpirun(str(Path(path).absolute()), _family(path, shown))


def _family(path: str, shown: str) -> MpiFamily:
    """Return the family that a launcher's version text tells."""
    if re.search(r"Open ?MPI|OpenRTE|Spectrum MPI", shown, re.IGNORECASE):
        number = re.search(r"\(Open MPI\) (\d+)", shown)
        is_new = number is not None and int(number[1]) >= FIRST_PRRTE
        return MpiFamily.OPEN_MPI_5 if is_new else MpiFamily.OPEN_MPI_4
    if re.search(r"HYDRA|Intel\(R\) MPI|MVAPICH", shown, re.IGNORECASE):
        return MpiFamily.HYDRA
    first = next(iter(shown.splitlines()), "nothing")
    raise ConfigError(
        f"--mpi: {path} is neither Open MPI nor of MPICH's family (its version says {first[:80]!r}); start the ranks "
        "by it yourself: mpirun -np N COMMAND"
    )


def mpi_command(mpirun: Mpirun, plan: LaunchPlan, options: MpiOptions) -> tuple[list[str], dict[str, str]]:
    """Return the command line that starts a job by MPI, and its environment.

    Args:
        mpirun: The launcher.
        plan: The job; hosts and environments of the ranks are as in any launch.
        options: Those that are translated.

    Raises:
        ConfigError: If an option has no counterpart.
    """
    environment = _environment(plan)
    write = _hydra_options if mpirun.family is MpiFamily.HYDRA else _open_mpi_options
    words = write(mpirun.family, plan, options, environment)
    extra = _split("--mpi-args", options.mpi_args)
    return [mpirun.path, "-np", str(plan.world_size), *words, *extra, *plan.command], environment


def _environment(plan: LaunchPlan) -> dict[str, str]:
    """Return the job's variables without a place in it, which MPI tells, and without secrets of this machine."""
    withheld = (*PLACE_NAMES, terminal.COLUMNS_NAME)
    kept = {
        name: value
        for name, value in plan.environment.items()
        if name not in withheld and not name.startswith(KEPT_PREFIXES)
    }
    if all(is_this_machine(share.host) for share in plan.shares):
        kept.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // plan.world_size)))
    return kept


def _hosts(shares: Sequence[HostShare]) -> str:
    return ",".join(f"{share.host}:{len(share.ranks)}" for share in shares)


def _with_reachable_names(plan: LaunchPlan) -> list[HostShare]:
    """Return the shares with another name for localhost: Hydra gives it to the other hosts, to call back."""
    others = [share.host for share in plan.shares if not is_this_machine(share.host)]
    if not others or LOCALHOST not in {share.host.lower() for share in plan.shares}:
        return [*plan.shares]
    address = route_address(others[0].rpartition("@")[2])
    return [replace(share, host=address) if share.host.lower() == LOCALHOST else share for share in plan.shares]


def _ssh_words(options: MpiOptions) -> list[str]:
    """Return the arguments that ssh is to be called with."""
    port = [] if options.ssh_port is None else ["-p", str(options.ssh_port)]
    return port + ([] if options.ssh_identity is None else ["-i", str(options.ssh_identity)])


def _open_mpi_options(
    family: MpiFamily, plan: LaunchPlan, options: MpiOptions, environment: Mapping[str, str]
) -> list[str]:
    is_new = family is MpiFamily.OPEN_MPI_5
    words = ["--host", _hosts(plan.shares) if plan.names_hosts else f"{LOCALHOST}:{plan.world_size}"]
    words += ["--bind-to", "none", "--map-by", "slot"] if options.binding_args is None else _binding(options)
    words += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    if ssh := _ssh_words(options):
        words += (
            ["--prtemca", "plm_ssh_args", shlex.join(ssh)] if is_new else ["--mca", "plm_rsh_args", shlex.join(ssh)]
        )
    if options.interfaces:
        words += ["--mca", "btl_tcp_if_include", ",".join(options.interfaces)]
    words += _open_mpi_output(plan, options, is_new=is_new)
    sent = forwarded(environment, RankStreams(), plan.sent)
    return words + [word for name in sorted(sent) for word in ("-x", name)]


def _open_mpi_output(plan: LaunchPlan, options: MpiOptions, *, is_new: bool) -> list[str]:
    """Return the options for prefixes, times and files."""
    folder = options.output_folder
    if not is_new:
        words = ["--tag-output"] if plan.is_prefixed else []
        words += ["--timestamp-output"] if plan.is_stamped else []
        return words + ([] if folder is None else ["--output-filename", folder])
    directives = ["tag"] if plan.is_prefixed else []
    directives += ["timestamp"] if plan.is_stamped else []
    directives += [] if folder is None else [f"dir={folder}"]
    return ["--output", ",".join(directives)] if directives else []


def _hydra_options(_family: MpiFamily, plan: LaunchPlan, options: MpiOptions, environment: dict[str, str]) -> list[str]:
    if plan.is_stamped:
        raise ConfigError("--prefix-output-with-timestamp: MPICH's mpirun writes no time; use --prefix-output")
    words = ["-hosts", _hosts(_with_reachable_names(plan))] if plan.names_hosts else []
    words += ["-bind-to", "none"] if options.binding_args is None else _binding(options)
    if ssh := _ssh_words(options):
        environment["HYDRA_LAUNCHER_EXTRA_ARGS"] = shlex.join(ssh)
    if options.interfaces:
        words += ["-iface", options.interfaces[0]]
    words += ["-prepend-rank"] if plan.is_prefixed else []
    if options.output_folder is not None:
        folder = Path(options.output_folder)
        words += [
            "-outfile-pattern",
            str(folder / "rank.%r.stdout"),
            "-errfile-pattern",
            str(folder / "rank.%r.stderr"),
        ]
    return words


def _binding(options: MpiOptions) -> list[str]:
    return _split("--binding-args", options.binding_args or "")


def _split(origin: str, text: str) -> list[str]:
    """Return an option's words as a shell would split them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{origin} {text!r} cannot be split as a shell would ({error}); check its quotes") from error
