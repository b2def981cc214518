# SPDX-License-Identifier: Apache-2.0
"""Torch's `env://` for ranks that no launcher has given torch's variables: `ringtune run`, an MPI's or Slurm's.

The ranks meet by ringtune's own means; rank 0 then serves torch's store to them.
"""

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ringtune.session.session import SESSION
from ringtune.torch.objects import broadcast_object
from ringtune.world.world import World

_QUEUE = 1024  # ranks that call at once; the kernel cuts it to its own limit

Triplet = tuple[Any, int, int]


def meet(timeout: timedelta) -> Iterator[Triplet]:
    """Yield torch's store, this rank and the number of ranks, once the ranks have met.

    Args:
        timeout: Time limit of the store.

    Raises:
        ConfigError: See `ringtune.torch.init`.
        CollectiveTimeout: If a rank did not come in time.
        PeerLostError: If a rank ended meanwhile.
    """
    SESSION.init()
    world = SESSION.require()
    server = _serve(world, timeout) if world.rank == 0 else None
    address = (world.interface or "127.0.0.1", 0 if server is None else server.port)
    host, port = broadcast_object(address, root_rank=0, name="ringtune.torch_backend.store")
    if server is None:
        server = dist.TCPStore(host, port, is_master=False, timeout=timeout, wait_for_workers=False)  # type: ignore[attr-defined]
    yield server, world.rank, world.size


def _serve(world: World, timeout: timedelta) -> Any:
    """Return rank 0's store, which listens on no other interface than the ranks need."""
    host = world.interface or "127.0.0.1"
    listener = socket.create_server((host, 0), backlog=_QUEUE)
    port = listener.getsockname()[1]
    return dist.TCPStore(  # type: ignore[attr-defined]
        host, port, is_master=True, timeout=timeout, wait_for_workers=False, master_listen_fd=listener.detach()
    )
