# SPDX-License-Identifier: Apache-2.0
"""Registration of the backend with torch, which calls it while torch itself is being imported.

It loads neither the engine nor any other module of torch, and keeps its own errors from torch.
"""

import os
import sys
from typing import Any

NAME = "ringtune"
SUBSTITUTE_NAME = "RINGTUNE_TORCH_BACKEND"


def register() -> None:
    """Make the backend's name known to `torch.distributed`; ignored where torch was built without it."""
    chosen = os.environ.get(SUBSTITUTE_NAME)
    try:
        distributed: Any = sys.modules["torch.distributed.distributed_c10d"]
        distributed.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu", "cuda"])
        handlers: Any = sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers  # noqa: SLF001
        handlers["env"] = _serving_launchers(handlers["env"])
        if chosen:
            from .gloo_substitution import substitute  # noqa: PLC0415  (few programs ask for it)

            substitute(distributed, chosen)
    except Exception as error:  # noqa: BLE001  (a torch of another age: `import torch` must not fail for it)
        if chosen:
            from ringtune.system.console import write_line  # noqa: PLC0415  (not for every import of torch)

            write_line(f"ringtune: warning: {SUBSTITUTE_NAME}={chosen} has no effect with this torch: {error!r}")


def _serving_launchers(original: Any) -> Any:
    """Return torch's reader of its variables, made to serve launchers that do not set them."""
    if hasattr(original, "serves_launchers"):
        return original

    def read(url: str, *args: Any, **given: Any) -> Any:
        from .launch_variables import is_needed  # noqa: PLC0415  (looks for launchers, which takes 50 ms)

        if "timeout" not in given or not is_needed(url):
            return original(url, *args, **given)
        from .launched import meet  # noqa: PLC0415  (loads the engine)

        return meet(given["timeout"])

    read.serves_launchers = True  # type: ignore[attr-defined]
    return read


def create(options: Any, backend_options: Any) -> Any:
    """Return a new process group.

    Args:
        options: Torch's `_DistributedBackendOptions`: the store, this rank, the number of ranks, the time limit.
        backend_options: Options of the program for this backend; there are none.
    """
    from .creation import create_group  # noqa: PLC0415  (loads the engine)

    return create_group(options, backend_options)
