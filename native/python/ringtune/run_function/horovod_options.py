# SPDX-License-Identifier: Apache-2.0
"""The arguments of `horovod.run` that have another name, or less to choose from, in `ringtune.run`."""

from ringtune.errors import ConfigError
from ringtune.launch.addresses import is_this_machine
from ringtune.launch.hosts import parse_hosts, share_out


def number_of_ranks(np: int | None, num_proc: int | None) -> int:
    """Return how many ranks are asked for.

    Args:
        np: Number of ranks.
        num_proc: The same under Horovod's newer name.

    Raises:
        ConfigError: If neither is given, or both are and differ.
    """
    given = {number for number in (np, num_proc) if number is not None}
    if len(given) != 1:
        raise ConfigError(f"ringtune.run(np={np}, num_proc={num_proc}) is not possible; give the number of ranks as np")
    return given.pop()


def check_controller(use_gloo: bool | None, use_mpi: bool | None) -> None:
    """Refuse two controllers; either alone is without effect, for the ranks of one machine share memory."""
    if use_gloo and use_mpi:
        raise ConfigError("ringtune.run(use_gloo=True, use_mpi=True) is not possible; leave both out")


def check_hosts(hosts: str, ranks: int) -> None:
    """Refuse hosts on which `ringtune.run` starts no ranks.

    Args:
        hosts: As `ringtune run -H` takes them: `host:slots,…`.
        ranks: How many are to be started.

    Raises:
        ConfigError: If a host that would get ranks is another machine, or there are not enough slots.
    """
    elsewhere = [share.host for share in share_out(parse_hosts(hosts), ranks) if not is_this_machine(share.host)]
    if elsewhere:
        raise ConfigError(
            f"ringtune.run(hosts={hosts!r}) is not possible, for it starts ranks on this machine alone and "
            f"{elsewhere[0]} is another; start the program with: ringtune run -np {ranks} -H {hosts} python PROGRAM"
        )
