# SPDX-License-Identifier: Apache-2.0
"""Confirmation of changes: a cookie is not enough, the form needs the session's form key or its token.

The key is made for the sign-in page, kept by the browser where scripts of this origin alone can read it, port included,
and added to forms when they are sent (`static/ringtune.js`). The service has its hash, and puts it into no later page:
the cookie alone, which every port of the host may have, reads pages and finds no key in them. A browser without the
key, or without JavaScript, is asked for the token instead.
"""

from typing import Any, ClassVar

from starlette.requests import Request

from ringtune.service.api.access import Callers
from ringtune.service.api.authorization import SESSION_KEY
from ringtune.service.api.browser_sessions import SignedIn
from ringtune.service.errors import Forbidden, Unauthenticated

from .forms import Fields, field_of, form_of
from .paths import SAFE_METHODS

FORM_KEY = "form_key"
OWN_TOKEN = "own_token"  # noqa: S105  (the name of a field)
FIELDS_KEY = "ringtune.unconfirmed_fields"
"""Key in a request's scope for the fields of a form that was not confirmed, so that it can be sent again."""


class FormNotConfirmedError(Forbidden):
    """A form came with neither the session's key nor its token; it was not acted on."""

    code: ClassVar[str] = "form_not_confirmed"
    title: ClassVar[str] = "Confirm with your token"


async def confirmed(request: Request) -> None:
    """Check that the signed-in browser sent a form; the pages' dependency, before every route.

    A request with a token in its header is confirmed by that: no browser sends it by itself.

    Raises:
        FormNotConfirmedError: If it was not.
    """
    signed_in: SignedIn | None = request.scope.get(SESSION_KEY)
    if request.method in SAFE_METHODS or signed_in is None:
        return
    fields = await form_of(request)
    if signed_in.session.has_form_key(field_of(fields, FORM_KEY)):
        return
    given = field_of(fields, OWN_TOKEN)
    if given and await _is_token_of(request, signed_in, given):
        return
    request.scope[FIELDS_KEY] = fields
    detail = (
        "this is not the token that you signed in with; nothing was changed"
        if given
        else "the form came without the key of your session; nothing was changed. Enter the token, or sign in again"
    )
    raise FormNotConfirmedError(detail)


def context_of(request: Request) -> dict[str, Any] | None:
    """Return the contents of the page that asks for the token and sends the form again; None without such a form."""
    fields: Fields | None = request.scope.get(FIELDS_KEY)
    if fields is None:
        return None
    kept = [(name, value) for name, values in fields.items() for value in values if name not in {FORM_KEY, OWN_TOKEN}]
    return {"fields": kept, "token_field": OWN_TOKEN, "is_wrong": bool(field_of(fields, OWN_TOKEN))}


async def _is_token_of(request: Request, signed_in: SignedIn, given: str) -> bool:
    callers: Callers = request.app.state.pages_state.callers
    if not given.isascii() or not given.isprintable():
        return False
    try:
        caller = await callers.find_from(request.scope, {b"authorization": f"Bearer {given}".encode()})
    except Unauthenticated:
        return False
    return caller.token_id == signed_in.caller.token_id
