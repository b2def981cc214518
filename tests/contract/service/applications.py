# SPDX-License-Identifier: Apache-2.0
"""The application, over a database of its own, for tests that speak to it in this process."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI

from ringtune.service.app import create_app
from ringtune.service.settings import ServiceSettings

ADMIN_SECRET = "admin-secret-of-these-tests"
READ_SECRET = "read-secret-of-these-tests-"


def application(folder: Path, *, has_tokens: bool = True, **settings: Any) -> FastAPI:
    """Return an application whose data lie in a folder; it limits no rate, and runs no optimizer.

    Args:
        folder: The folder of its database.
        has_tokens: Whether a token is needed.
        settings: More of them.
    """
    return create_app(
        ServiceSettings.read(
            database_url=f"sqlite:///{folder / 'service.sqlite3'}",
            admin_token=ADMIN_SECRET if has_tokens else None,
            read_token=READ_SECRET if has_tokens else None,
            rate_per_s=0.0,
            design_workers=0,
            **settings,
        )
    )


def bearer(secret: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"Authorization": f"Bearer {secret}"}
