# SPDX-License-Identifier: Apache-2.0
"""The views: one file and one router each."""

from fastapi import APIRouter

from . import compare, downloads, events, files, hardware, recommendations, sign_in, studies, study, tokens

ROUTERS: tuple[APIRouter, ...] = tuple(
    view.router
    for view in (downloads, studies, study, compare, hardware, recommendations, tokens, sign_in, files, events)
)

__all__ = ["ROUTERS"]
