# SPDX-License-Identifier: Apache-2.0
"""The choice between ringtune's own launcher and mpirun. Pure."""

from ringtune.errors import ConfigError

from .choices import Choices


def starts_by_mpi(choices: Choices) -> bool:
    """Return whether mpirun starts the ranks: --mpi asks for it, and so do arguments for it.

    Raises:
        ConfigError: If options contradict each other, or need the other launcher.
    """
    origins = choices.given("mpi_args") if not choices.value("mpi", False) else choices.given("mpi")
    if not origins:
        for origin in choices.given("binding_args"):
            raise ConfigError(
                f"{origin}: without --mpi, ranks are not bound to cores; begin the command with a program that binds, "
                "such as numactl -N 0 COMMAND, or add --mpi"
            )
        return False
    if choices.value("gloo", False):
        raise ConfigError(f"{' and '.join([*choices.given('gloo'), *origins])} name two launchers; give one of them")
    for origin in choices.given("rsh"):
        raise ConfigError(
            f"{origin}: mpirun calls a remote shell in its own way; name it in --mpi-args, for example "
            "--mpi-args='--mca plm_rsh_agent COMMAND' (Open MPI) or '-launcher-exec COMMAND' (MPICH)"
        )
    return True
