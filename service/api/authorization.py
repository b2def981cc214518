# SPDX-License-Identifier: Apache-2.0
"""Authorization: each route names the scope that it needs by `Security`; a route that names none is for admins alone.

Authentication comes before it, in the middleware `Access`, which notes the caller's scopes in the request's own.
"""

from typing import Annotated, TypeAlias

from fastapi import Depends
from fastapi.openapi.models import HTTPBearer
from fastapi.params import Security
from fastapi.routing import APIRoute
from fastapi.security import SecurityScopes
from fastapi.security.base import SecurityBase
from starlette.requests import Request
from starlette.types import Scope

from ringtune.service.errors import Forbidden

CALLER_KEY = "ringtune.caller"
"""Key in a request's scope for the id of its token."""
SCOPES_KEY = "ringtune.scopes"
"""Key in a request's scope for the scopes that its caller has."""
OPEN_KEY = "ringtune.is_open"
"""Key in a request's scope that is true on paths which need no token."""
SESSION_KEY = "ringtune.session.session"
"""Key in a request's scope for the browser session that it came with. Pages set it before `Access`; it opens pages
alone."""
READ, REPORT, ADMIN = "read", "report", "admin"

Scopes: TypeAlias = frozenset[str]
EVERYTHING: Scopes = frozenset({READ, REPORT, ADMIN})


class Authorization(SecurityBase):
    """Security dependency: refuses a request whose caller lacks the scope that the route names."""

    def __init__(self, *, is_for_pages: bool = False) -> None:
        """Authorize calls of the API by token; pages open to sessions of browsers, too."""
        self.model = HTTPBearer()
        self.scheme_name = "token"
        self._is_for_pages = is_for_pages

    async def __call__(self, request: Request, security_scopes: SecurityScopes) -> None:
        """Check the route's scopes; raises as `check`."""
        self.check(request.scope, *security_scopes.scopes)

    def check(self, scope: Scope, *needed: str) -> None:
        """Check that a request's caller has each of these scopes.

        Raises:
            Forbidden: If one is missing, or a browser's session asks for something else than a page.
        """
        if scope.get(OPEN_KEY, False):
            return
        if scope.get(SESSION_KEY) is not None and not self._is_for_pages:
            raise Forbidden("a browser's session opens pages alone; send a token: Authorization: Bearer ...")
        for name in needed:
            check_scope(scope, name)


authorize = Authorization()
authorize_page = Authorization(is_for_pages=True)
MAY_READ = Security(authorize, scopes=[READ])
MAY_REPORT = Security(authorize, scopes=[REPORT])
MAY_ADMINISTER = Security(authorize, scopes=[ADMIN])


def declared_scopes(route: object) -> tuple[str, ...] | None:
    """Return the scopes that a route names, None if it names none."""
    dependencies = route.dependencies if isinstance(route, APIRoute) else ()
    named = [item for item in dependencies if isinstance(item, Security) and isinstance(item.dependency, Authorization)]
    return tuple(scope for item in named for scope in item.scopes or ()) or None


async def deny_undeclared(request: Request) -> None:
    """Refuse a route that names no scope to everybody but admins; the application's dependency, before every route.

    Raises:
        Forbidden: If the caller is no admin, or a browser.
    """
    if declared_scopes(request.scope.get("route")) is None:
        authorize.check(request.scope, ADMIN)


def check_scope(scope: Scope, needed: str) -> None:
    """Raise Forbidden if the request's caller has neither the scope nor `admin`."""
    granted: Scopes = scope.get(SCOPES_KEY, frozenset())
    if needed not in granted and ADMIN not in granted:
        has = ", ".join(sorted(granted)) or "none"
        raise Forbidden(
            f"this call needs the scope {needed!r}, the token has: {has}; ask an operator for another token"
        )


async def _token_of(request: Request) -> str | None:
    token_id: str | None = request.scope.get(CALLER_KEY)
    return token_id


TokenDep = Annotated[str | None, Depends(_token_of)]
"""The id of the token that a request came with; None where the service is open."""
