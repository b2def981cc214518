# SPDX-License-Identifier: Apache-2.0
"""The layers that a request passes on its way to its route, each beside the reason for its place.

`tests/contract/service/test_layers.py` swaps every two neighbours, and sees the promise of each reason break.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from .access import OPEN_PATHS, Access
from .admission import STREAMS, Gate, LoadShedding
from .dependencies import AppState
from .limits import BodyLimit, RateLimit
from .outcomes import Outcomes
from .pages import Pages, PageState
from .recommendation_cache import CachedRecommendations
from .reply_headers import Heads, ReplyHeaders

BULK_PATHS = ("/v1/runs", "/v1/import")
EXPORT_PATH = "/v1/export"
OPEN_BODY_BYTES_MAX = 16 << 10
"""Bytes of a body that anybody may send: a sign-in form with the longest token and address, quoted, is smaller."""


@dataclass(frozen=True)
class Layer:
    """An ASGI middleware and its place.

    Attributes:
        middleware: Wraps the application, with `options`.
        reason: The reason why it stands inside the layer before it, or outermost.
        options: Keyword arguments for `middleware`.
    """

    middleware: Callable[..., ASGIApp]
    reason: str
    options: Mapping[str, Any] = field(default_factory=dict)


def layers(state: AppState, page_state: PageState, pages: Pages | None) -> tuple[Layer, ...]:
    """Return the layers, the outermost first."""
    settings = state.settings
    open_paths = OPEN_PATHS | (pages.open_paths if pages else frozenset())
    streams = STREAMS | (pages.stream_paths if pages else frozenset())
    by_path = {
        **dict.fromkeys(BULK_PATHS, settings.bulk_bytes_max),
        **dict.fromkeys(open_paths, min(OPEN_BODY_BYTES_MAX, settings.body_bytes_max)),
    }
    reason = "Inside ReplyHeaders: what it refuses by itself has an id and headers, too."
    web = () if pages is None else (Layer(pages.wrap, reason, {"sessions": page_state.sessions}),)
    return (
        Layer(ReplyHeaders, "Outermost: every reply has its id and headers, whoever made it.", {"ids": state.ids}),
        *web,
        Layer(
            Outcomes,
            "Inside the pages' layer, which turns the problem of a bug into a page as well.",
            {"metrics": state.metrics},
        ),
        Layer(LoadShedding, "Inside Outcomes, which counts its refusals.", {"admission": state.admission}),
        Layer(
            Access,
            "Inside LoadShedding: while no place is free, looking at a token would cost more than a refusal.",
            {"callers": page_state.callers, "open_paths": open_paths},
        ),
        Layer(
            RateLimit,
            "Inside Access, which finds the caller that is limited.",
            {"rate_per_s": settings.rate_per_s, "burst": settings.rate_burst, "clock": time.monotonic},
        ),
        Layer(
            CachedRecommendations,
            "Inside RateLimit: a reply from the cache counts like any other.",
            {"cache": state.cache, "metrics": state.metrics},
        ),
        Layer(
            BodyLimit,
            "Inside the cache: a reply from there waits for no body.",
            {"bytes_max": settings.body_bytes_max, "by_path": by_path, "timeout_s": settings.body_timeout_s},
        ),
        Layer(
            Gate,
            "Inside BodyLimit: a body that comes slowly takes no place.",
            {"admission": state.admission, "streams": streams},
        ),
        Layer(
            Heads,
            "Innermost: the routes know GET alone, and Outcomes counts the method that was sent. Its order with Gate "
            "does not matter.",
            {"lasting": streams | {EXPORT_PATH}},
        ),
    )


def install(app: FastAPI, chain: tuple[Layer, ...]) -> None:
    """Put the layers before the application's routes; the framework takes the innermost first."""
    for layer in reversed(chain):
        app.add_middleware(layer.middleware, **layer.options)
