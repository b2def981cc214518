# SPDX-License-Identifier: Apache-2.0
"""Sessions as the API finds them: guesses keep no browser out, and a session opens no call that is not a page."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from fastapi.security import SecurityScopes
from starlette.requests import Request

from ringtune.service.api.access import Caller, let_in
from ringtune.service.api.authorization import SESSION_KEY, Authorization, authorize, authorize_page
from ringtune.service.api.browser_sessions import LOOKUPS, MAX_WAITING, BrowserSessions
from ringtune.service.domain.page_sessions import PageSession, new_secret
from ringtune.service.errors import Forbidden, Overloaded
from tests.unit.service.api.asgi import scope_of

KNOWN = new_secret()
SESSION = PageSession("0" * 16, "0" * 16, "reader", frozenset({"read"}), 0.0, 0.0, "", None)
LIMIT_S = 60.0


class SlowForStrangers:
    """Sessions of which one is valid; all others are looked up until somebody says so."""

    def __init__(self) -> None:
        """Begin to be slow."""
        self.go_on = threading.Event()
        self.begun = threading.Semaphore(0)

    def find(self, session_id: str) -> PageSession | None:
        """Return the session, or none after a while."""
        if session_id == KNOWN:
            return SESSION
        self.begun.release()
        self.go_on.wait(LIMIT_S)
        return None


def test_guesses_do_not_keep_out_signed_in_browsers() -> None:
    """While made-up ids wait for their look-up a valid one is found; beyond a bound they are refused."""
    slow = SlowForStrangers()

    async def find() -> tuple[str, list[object]]:
        sessions = BrowserSessions(slow, SimpleNamespace(of_settings=()))  # type: ignore[arg-type]
        assert await sessions.find(KNOWN) is not None
        guesses = [asyncio.ensure_future(sessions.find(new_secret())) for _ in range(LOOKUPS + MAX_WAITING)]
        try:
            for _ in range(LOOKUPS):  # the others wait by then: all of them go through the same turns of the loop
                assert await asyncio.to_thread(slow.begun.acquire, timeout=LIMIT_S)
            with pytest.raises(Overloaded):
                await asyncio.wait_for(sessions.find(new_secret()), LIMIT_S)
            found = await asyncio.wait_for(sessions.find(KNOWN), LIMIT_S)
        finally:
            slow.go_on.set()
        assert found is not None
        return str(found.caller.token_id), list(await asyncio.gather(*guesses))

    assert ("0" * 16, [None] * (LOOKUPS + MAX_WAITING)) == asyncio.run(find())


@pytest.mark.parametrize(("check", "is_opened"), [(authorize, False), (authorize_page, True)], ids=["a call", "a page"])
def test_a_session_opens_routes_that_say_they_are_pages(check: Authorization, is_opened: bool) -> None:
    """Calls of the API stay closed to it, whatever path led there and whatever the token may."""
    scope = {**scope_of("/studies"), SESSION_KEY: SESSION}
    let_in(scope, Caller("0" * 16, frozenset({"admin"})))

    if is_opened:
        asyncio.run(check(Request(scope), SecurityScopes(["read"])))
    else:
        with pytest.raises(Forbidden, match="pages alone"):
            asyncio.run(check(Request(scope), SecurityScopes(["read"])))
