# SPDX-License-Identifier: Apache-2.0
"""Pages out of templates: every name is escaped, a missing one is an error, and data for scripts are JSON alone."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from ringtune.service.api.authorization import ADMIN, CALLER_KEY, SCOPES_KEY
from ringtune.system.counts import counted
from ringtune.tuner.space.readable import readable_value

from . import wording
from .assets import Assets

FOLDER = Path(__file__).parent / "templates"
NAVIGATION = (
    ("/studies", "Studies"),
    ("/compare", "Compare"),
    ("/hardware", "Hardware"),
    ("/recommendations", "Recommendations"),
)
FOR_ADMINS = (("/tokens", "Tokens"),)


class Templates:
    """The templates, read once."""

    def __init__(self, assets: Assets) -> None:
        """Link to static files."""
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "age": wording.age,
            "counted": counted,
            "layout": wording.layout,
            "milliseconds": wording.milliseconds,
            "ranks_of_hosts": wording.ranks_of_hosts,
            "said": wording.said,
            "short": wording.short,
            "size": wording.size,
            "speedup": wording.speedup,
            "bounds": wording.bounds,
            "level": wording.level,
            "mean_gain": wording.mean_gain,
            "mean_gain_interval": wording.mean_gain_interval,
            "short_mean_gain": wording.short_mean_gain,
            "with_bounds": wording.with_bounds,
        }
        self._environment.globals |= {
            "asset": assets.url,
            "baseline_of": wording.baseline_of,
            "ids_of_styles": assets.ids_of_styles,
            "finding_of": wording.finding_of,
            "hardware_of": wording.hardware_of,
            "name_of": wording.name_of,
            "link": link,
            "STATES": wording.STATES,
            "start_of": wording.start_of,
            "telling": wording.telling,
            "told_verdicts": wording.told_verdicts,
            "TRUSTED_JOBS": wording.TRUSTED_JOBS,
            "readable_value": readable_value,
        }

    def text(self, name: str, request: Request, context: Mapping[str, Any]) -> str:
        """Return a page; of the request it takes its address, and its sender's scopes."""
        scopes = request.scope.get(SCOPES_KEY, frozenset())
        return self._environment.get_template(name).render(
            path=request.url.path,
            is_signed_in=request.scope.get(CALLER_KEY) is not None,
            navigation=(*NAVIGATION, *(FOR_ADMINS if ADMIN in scopes else ())),
            **context,
        )


def respond(request: Request, name: str, context: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """Return a page as a reply."""
    templates: Templates = request.app.state.pages.templates
    return HTMLResponse(templates.text(name, request, context), status)


def link(path: str, parameters: Mapping[str, Any] | None = None, **changed: Any) -> str:
    """Return a path with parameters, changed by some; those that are empty are left out, lists come several times."""
    values = {**(parameters or {}), **changed}
    pairs: Iterable[tuple[str, Any]] = [
        (name, item)
        for name, value in values.items()
        for item in (value if isinstance(value, list | tuple) else [value])
        if item not in {None, ""}
    ]
    query = urlencode(list(pairs))
    return f"{path}?{query}" if query else path
