# SPDX-License-Identifier: Apache-2.0
"""The application with its pages, over a database of its own, and a browser's requests."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from ringtune.dashboards.web import WebPages
from ringtune.service.app import create_app
from ringtune.service.settings import ServiceSettings
from tests.contract.service.applications import ADMIN_SECRET, READ_SECRET

HERE = "http://127.0.0.1"
BROWSER = {"accept": "text/html,application/xhtml+xml"}
FORM = {**BROWSER, "origin": HERE}
"""Headers of a browser that sends a form of one of our pages."""
FORM_KEY = "of-these-tests".ljust(43, "-")
"""Key that the script of the pages adds to forms; here it is the same for all sessions."""


def application_with_pages(folder: Path, *, has_tokens: bool = True, **more: Any) -> FastAPI:
    """Return an application with pages whose data lie in a folder; it runs no optimizer.

    Args:
        folder: The folder of its database.
        has_tokens: Whether a token is needed.
        more: Settings.
    """
    settings = {
        "database_url": f"sqlite:///{folder / 'service.sqlite3'}",
        "admin_token": ADMIN_SECRET if has_tokens else None,
        "read_token": READ_SECRET if has_tokens else None,
        "rate_per_s": 0.0,
        "design_workers": 0,
        **more,
    }
    return create_app(ServiceSettings.read(**settings), WebPages())


def sign_in(client: TestClient, secret: str, *, wanted: str = "/studies", form_key: str = FORM_KEY) -> int:
    """Send the sign-in form as a browser does, and return the status."""
    fields = {"token": secret, "next": wanted, "form_key": form_key}
    return int(client.post("/sign-in", data=fields, headers=FORM).status_code)


def send(client: TestClient, path: str, **fields: Any) -> Any:
    """Send a form of a page as a browser does that has the session's key, and return the reply."""
    return client.post(path, data={"form_key": FORM_KEY, **fields}, headers=FORM)
