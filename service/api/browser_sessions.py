# SPDX-License-Identifier: Apache-2.0
"""Sessions of browsers, looked up anew for every request, so that one that ended is over at once.

Unknown ids are looked up in threads of their own, few of which may wait: guesses keep out no browser that is
signed in.
"""

import asyncio
from dataclasses import dataclass, field

import structlog
from anyio import CapacityLimiter, to_thread
from cachetools import LRUCache

from ringtune.service.domain.page_sessions import PageSession, PageSessions, handle_of
from ringtune.service.errors import Overloaded, ServiceError

from .access import Caller, Callers

MAX_KNOWN = 4096
LOOKUPS = 4
WRITES = 2
MAX_WAITING = 64
"""Ids that were not valid lately and wait for their look-up."""


@dataclass(frozen=True)
class SignedIn:
    """A valid session, with its secret id.

    Attributes:
        session_id: The id in the cookie.
        session: The stored session.
        caller: The token that it was begun with, and its scopes.
    """

    session_id: str = field(repr=False)
    session: PageSession
    caller: Caller


class BrowserSessions:
    """Begins, finds and ends sessions, in the threads that they may have. Used from the event loop alone."""

    def __init__(self, sessions: PageSessions, callers: Callers) -> None:
        """Look sessions up in `sessions`, and tokens that are settings in `callers`."""
        self._sessions = sessions
        self._callers = callers
        self._known: LRUCache[str, None] = LRUCache(MAX_KNOWN)
        self._threads, self._threads_of_strangers = CapacityLimiter(LOOKUPS), CapacityLimiter(LOOKUPS)
        # Apart: a database that takes no writes, or not soon, still answers reads.
        self._threads_that_write, self._thread_that_notes = CapacityLimiter(WRITES), CapacityLimiter(1)
        self._touching: dict[str, asyncio.Task[None]] = {}

    async def begin(self, caller: Caller, token_secret: str, form_key: str) -> str:
        """Return the id of a new session.

        Args:
            caller: The caller that its token belongs to.
            token_secret: The token.
            form_key: The key of the browser's forms; without it they ask for the token.
        """
        assert caller.token_id is not None, "whoever has a token has its id"
        session_id = await to_thread.run_sync(
            self._sessions.begin, caller.token_id, token_secret, form_key, limiter=self._threads_that_write
        )
        self._remember(session_id)
        structlog.get_logger().info("signed_in", token=caller.token_id, session=handle_of(session_id))
        return session_id

    async def find(self, session_id: str, *, is_use: bool = True) -> SignedIn | None:
        """Return the session of an id, None if there is none that is valid.

        Args:
            session_id: The id that a browser sent, valid or not.
            is_use: Whether somebody asks for something now: a reply that lasts keeps no session from being idle.

        Raises:
            Overloaded: If too many unknown ids are being looked up.
            StoreUnavailable: If the database does not answer.
        """
        is_known = session_id in self._known
        threads = self._threads if is_known else self._threads_of_strangers
        if not is_known and threads.statistics().tasks_waiting >= MAX_WAITING:
            raise Overloaded("too many sessions are being looked up; try again")
        session = await to_thread.run_sync(self._sessions.find, session_id, limiter=threads)
        caller = None if session is None else self._caller_of(session_id, session)
        if session is None or caller is None:
            self._known.pop(session_id, None)
            return None
        self._remember(session_id)
        if is_use and session.is_due:
            self._touch(session_id)
        return SignedIn(session_id, session, caller)

    async def end(self, session_id: str) -> None:
        """End a session; it is over when this returns."""
        self._known.pop(session_id, None)
        if await to_thread.run_sync(self._sessions.end, session_id, limiter=self._threads_that_write):
            structlog.get_logger().info("signed_out", session=handle_of(session_id))

    def _caller_of(self, session_id: str, session: PageSession) -> Caller | None:
        """Return whose the session is; None where a setting is no longer the token that it was begun with."""
        if not session.is_of_setting:
            return Caller(session.token_id, frozenset(session.scopes))
        for secret, caller in self._callers.of_settings:
            if caller.token_id == session.token_id and session.is_proven(session_id, secret.decode()):
                return caller
        return None

    def _remember(self, session_id: str) -> None:
        self._known[session_id] = None

    def _touch(self, session_id: str) -> None:
        """Note that a session is used, beside the request: a database that takes no writes keeps no page back."""
        if session_id not in self._touching:
            task = asyncio.ensure_future(self._touched(session_id))
            self._touching[session_id] = task
            task.add_done_callback(lambda _: self._touching.pop(session_id, None))

    async def _touched(self, session_id: str) -> None:
        try:
            await to_thread.run_sync(self._sessions.touch, session_id, limiter=self._thread_that_notes)
        except ServiceError as error:
            structlog.get_logger().info("session_use_not_noted", detail=error.detail)
