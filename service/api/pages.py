# SPDX-License-Identifier: Apache-2.0
"""What web pages for people have to be, if whoever composes the program hands some over; the service has none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fastapi import APIRouter
from starlette.types import ASGIApp

from ringtune.service.domain.overview import Overview

from .access import Callers


@dataclass(frozen=True)
class PageParts:
    """What pages need besides the API's parts: `app.state.page_parts`.

    Attributes:
        callers: Finds who holds a token.
        overview: What people look through.
    """

    callers: Callers
    overview: Overview


class Pages(Protocol):
    """Pages, which install themselves: `app.state.pages`."""

    @property
    def open_paths(self) -> frozenset[str]:
        """Whole paths that need no token."""
        ...

    @property
    def routers(self) -> Sequence[APIRouter]:
        """The routes; each declares the scope that it needs."""
        ...

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Return what stands before everything else, the checks of who may included."""
        ...
