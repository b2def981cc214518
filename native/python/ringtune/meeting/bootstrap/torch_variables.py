# SPDX-License-Identifier: Apache-2.0
"""The variables of `torchrun`, for a rank that `ringtune run` has started: torch's `env://` and launchers' readers."""

import os
from collections.abc import Mapping

RUN_ID = "ringtune"
STORE_NAMES = ("MASTER_ADDR", "MASTER_PORT")
"""Variables that name the host and the port of torch's store."""


def torch_variables(environ: Mapping[str, str], address: str, port: int | str) -> dict[str, str]:
    """Return the variables that `torchrun` would set for a rank, without its agent's store: rank 0 serves one.

    Args:
        environ: Environment of a rank, as the launcher made it.
        address: Address at which rank 0 serves torch's store.
        port: Its port there.
    """
    local_size, hosts = environ["HOROVOD_LOCAL_SIZE"], environ["HOROVOD_CROSS_SIZE"]
    return {
        **dict(zip(STORE_NAMES, (address, str(port)), strict=True)),
        "RANK": environ["RINGTUNE_RANK"],
        "WORLD_SIZE": environ["RINGTUNE_WORLD_SIZE"],
        "LOCAL_RANK": environ["HOROVOD_LOCAL_RANK"],
        "LOCAL_WORLD_SIZE": local_size,
        "GROUP_RANK": environ["HOROVOD_CROSS_RANK"],
        "GROUP_WORLD_SIZE": hosts,
        "ROLE_RANK": environ["RINGTUNE_RANK"],
        "ROLE_WORLD_SIZE": environ["RINGTUNE_WORLD_SIZE"],
        "TORCHELASTIC_RUN_ID": RUN_ID,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }


def tell_torch(address: str, port: int) -> None:
    """Set these variables in this process."""
    os.environ.update(torch_variables(os.environ, address, port))
