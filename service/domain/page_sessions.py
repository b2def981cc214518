# SPDX-License-Identifier: Apache-2.0
"""Sessions of browsers that signed in: random ids that open the pages for people, and no call of the API.

Cookies go to every port of a host. A session's id is therefore no token, it ends by itself, when its browser signs out
and when its token is revoked, and it cannot change data: that takes the session's *form key* as well, in no cookie.
Of both the database has hashes alone; 32 random bytes need no slower hash. The database's clock is the one that counts.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

from ringtune.service.errors import SessionNotFound
from ringtune.service.store import Database, audit
from ringtune.service.store import page_sessions as table
from ringtune.service.store.rows import NewPageSession, PageSessionRow

from .policy import ServiceLimits
from .tokens import scopes_of
from .values import Scope

SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
SECRET_BYTES = 32
HANDLE_DIGITS = 16
SETTING = "setting:"
"""Prefix of the id of a token that is a setting and has no row among the tokens."""
AHEAD_S = 60.0
"""Seconds that a session may begin in the future: more means that the clock was set back, and its age is not known."""
TOUCHED_S = 60.0
"""Seconds of use that need not be noted: the idle time is that much shorter at most."""
MAX_LISTED = 200


@dataclass(frozen=True)
class PageSession:
    """A browser that signed in.

    Attributes:
        handle: The first digits of the id's hash, by which operators name the session.
        token_id: The token that it was begun with; `setting:SCOPE` for one that is a setting.
        token_name: The token's name; None for a setting's.
        scopes: The token's scopes; empty for a setting's, which the settings know.
        age_s: Seconds since the sign-in.
        idle_s: Seconds since the session was used, as far as that was noted.
        token_proof: HMAC of the token's secret under the session's id.
        form_key_sha256: Hash of the form key; None where the browser has none.
    """

    handle: str
    token_id: str
    token_name: str | None
    scopes: frozenset[Scope]
    age_s: float
    idle_s: float
    token_proof: str = field(repr=False)
    form_key_sha256: str | None = field(repr=False)

    @property
    def is_of_setting(self) -> bool:
        """Return whether the token is a setting."""
        return self.token_id.startswith(SETTING)

    @property
    def is_due(self) -> bool:
        """Return whether its use should be noted."""
        return self.idle_s >= TOUCHED_S

    def has_form_key(self, given: str) -> bool:
        """Tell, in constant time, whether this is the session's form key."""
        return self.form_key_sha256 is not None and hmac.compare_digest(self.form_key_sha256, _hashed(given))

    def is_proven(self, session_id: str, token_secret: str) -> bool:
        """Tell, in constant time, whether the session with this id was begun with this token."""
        return hmac.compare_digest(self.token_proof, _proof(session_id, token_secret))


class PageSessions:
    """All sessions. Methods may be called from any thread."""

    def __init__(self, database: Database, policy: ServiceLimits) -> None:
        """Keep sessions in `database`, for as long as `policy` says."""
        self._database = database
        self._policy = policy

    def begin(self, token_id: str, token_secret: str, form_key: str | None = None) -> str:
        """Begin a session and return its id, which cannot be read again; sessions that are over are removed.

        Args:
            token_id: The token that somebody signs in with, which was found to be valid.
            token_secret: Its secret; it is not stored.
            form_key: A key from `new_secret`; with any other value forms ask for the token.
        """
        session_id = new_secret()
        has_key = form_key is not None and SECRET.fullmatch(form_key) is not None
        row = NewPageSession(
            session_sha256=_hashed(session_id),
            token_id=token_id,
            token_proof=_proof(session_id, token_secret),
            form_key_sha256=_hashed(form_key) if form_key is not None and has_key else None,
        )
        with self._database.writing(table.LOCK) as connection:
            table.delete_over(connection, *self._limits)
            table.delete_beyond(connection, token_id, self._policy.max_sessions_per_token - 1)
            table.add(connection, row)
        return session_id

    def find(self, session_id: str) -> PageSession | None:
        """Return the session of an id, None for one that is over, unknown, or whose token was revoked."""
        if SECRET.fullmatch(session_id) is None:
            return None
        row = self._database.look(lambda connection: table.get(connection, _hashed(session_id)))
        return None if row is None else self._valid(row)

    def touch(self, session_id: str) -> None:
        """Note that a session is used now."""
        with self._database.writing() as connection:
            table.touch(connection, _hashed(session_id))

    def end(self, session_id: str) -> bool:
        """End a session: no process knows it from the moment when this returns. Tells whether there was one."""
        with self._database.writing() as connection:
            return bool(table.delete_one(connection, _hashed(session_id)))

    def end_named(self, handle: str) -> None:
        """End the session that an operator names.

        Raises:
            SessionNotFound: If there is none.
        """
        with self._database.writing() as connection:
            if not table.delete_named(connection, handle):
                raise SessionNotFound(f"there is no session {handle[:64]!r}; it may have ended on its own")
            audit.record(connection, "page_session_ended", handle, {})

    def list(self) -> tuple[PageSession, ...]:
        """Return the sessions that were used last, the latest first, 200 at most."""
        with self._database.looking() as connection:
            rows = table.newest(connection, MAX_LISTED)
        return tuple(session for session in map(self._valid, rows) if session is not None)

    def count(self) -> int:
        """Return how many sessions are within their limits."""
        with self._database.looking() as connection:
            return table.count(connection, *self._limits)

    def remove_ended(self) -> int:
        """Remove the sessions that are over; returns how many."""
        with self._database.writing() as connection:
            return table.delete_over(connection, *self._limits)

    @property
    def max_age_s(self) -> float:
        """Until a session is over, whatever it does."""
        return self._policy.max_session_s

    @property
    def _limits(self) -> tuple[float, float]:
        return self._policy.max_session_s, self._policy.max_session_idle_s

    def _valid(self, row: PageSessionRow) -> PageSession | None:
        session = _session_of(row)
        max_age_s, max_idle_s = self._limits
        is_fresh = -AHEAD_S <= session.age_s < max_age_s and -AHEAD_S <= session.idle_s < max_idle_s
        has_token = session.is_of_setting or (row.token_unix_s is not None and row.revoked_unix_s is None)
        return session if is_fresh and has_token else None


def new_secret() -> str:
    """Return 32 random bytes as text: a session's id, or a form key."""
    return secrets.token_urlsafe(SECRET_BYTES)


def handle_of(session_id: str) -> str:
    """Return the name of a session for operators and the log; it opens no page."""
    return _hashed(session_id)[:HANDLE_DIGITS]


def _session_of(row: PageSessionRow) -> PageSession:
    return PageSession(
        handle=row.session_sha256[:HANDLE_DIGITS],
        token_id=row.token_id,
        token_name=row.name,
        scopes=scopes_of(row.scopes or ""),
        age_s=row.age_s,
        idle_s=row.idle_s,
        token_proof=row.token_proof,
        form_key_sha256=row.form_key_sha256,
    )


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _proof(session_id: str, token_secret: str) -> str:
    return hmac.new(session_id.encode(), token_secret.encode(), hashlib.sha256).hexdigest()
