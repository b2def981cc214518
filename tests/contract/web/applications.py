# SPDX-License-Identifier: Apache-2.0
"""The application with its pages, over a database of its own, and what a browser sends to it."""

from pathlib import Path

from fastapi import FastAPI

from ringtune.dashboards.web import WebPages
from ringtune.service.app import create_app
from ringtune.service.settings import ServiceSettings
from tests.contract.service.applications import ADMIN_SECRET, READ_SECRET

HERE = "http://127.0.0.1"
BROWSER = {"accept": "text/html,application/xhtml+xml"}
FORM = {**BROWSER, "origin": HERE}
"""What a browser says when it sends a form of a page of ours."""


def application_with_pages(folder: Path, *, has_tokens: bool = True) -> FastAPI:
    """Return an application with pages whose data lie in a folder; it runs no optimizer."""
    settings = ServiceSettings.read(
        database_url=f"sqlite:///{folder / 'service.sqlite3'}",
        admin_token=ADMIN_SECRET if has_tokens else None,
        read_token=READ_SECRET if has_tokens else None,
        rate_per_s=0.0,
        design_workers=0,
    )
    return create_app(settings, WebPages())
