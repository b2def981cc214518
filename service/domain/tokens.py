# SPDX-License-Identifier: Apache-2.0
"""Tokens: a secret is shown once, its SHA-256 is kept, and it is compared in constant time.

A secret has 32 random bytes, so that a plain hash is enough: it cannot be guessed.
"""

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable, Collection
from typing import cast, get_args

from ringtune.service.errors import InvalidRequest, TokenNotFound
from ringtune.service.store import Database, audit, page_sessions
from ringtune.service.store import tokens as table
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.rows import AgedToken, TokenRow

from .values import Scope, TokenGrant

SECRET = re.compile(r"rt_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
REMEMBERED_S = 2.0
"""Seconds for which a revocation by another process may go unnoticed."""
MAX_REMEMBERED = 1024
MAX_NAME = 200


class Tokens:
    """Authorization by tokens."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        """Keep tokens in `database`; `clock` says how long an answer is remembered."""
        self._database = database
        self._clock = clock
        self._remembered: dict[str, tuple[float, str, TokenGrant]] = {}
        self._lock = threading.Lock()

    def create(self, name: str, scopes: Collection[str], *, has_many_jobs: bool = False) -> tuple[TokenGrant, str]:
        """Make a token and return it with its secret, which cannot be read again.

        Args:
            name: For people.
            scopes: Its permissions.
            has_many_jobs: Whether it stands for many independent jobs, which then count one by one.

        Raises:
            InvalidRequest: If the name or a scope is not allowed.
        """
        known = get_args(Scope)
        if not scopes or not set(scopes) <= set(known):
            raise InvalidRequest(f"scopes={sorted(scopes)}; allowed: one or more of {', '.join(known)}")
        if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
            raise InvalidRequest(f"a token's name has 1 to {MAX_NAME} printable characters")
        token_id = secrets.token_hex(8)
        secret = f"rt_{token_id}_{secrets.token_urlsafe(32)}"
        with self._database.writing() as connection:
            row = TokenRow(
                token_id=token_id,
                name=name,
                scopes=" ".join(sorted(set(scopes))),
                secret_sha256=_hashed(secret),
                created_unix_s=now_unix_s(connection),
                revoked_unix_s=None,
                has_many_jobs=has_many_jobs,
            )
            table.add(connection, row)
            said = {"name": name, "scopes": sorted(set(scopes)), "has_many_jobs": has_many_jobs}
            audit.record(connection, "token_created", token_id, said)
        return token_of(AgedToken(**vars(row), age_s=0.0)), secret

    def list(self) -> tuple[TokenGrant, ...]:
        """Return all tokens, the newest first, revoked ones too."""
        with self._database.looking() as connection:
            return tuple(token_of(row) for row in table.everyone(connection))

    def exist(self) -> bool:
        """Tell whether there is a token that is valid: if not, loopback is open."""
        with self._database.looking() as connection:
            return table.exist(connection)

    def revoke(self, token_id: str) -> None:
        """Make a token invalid: here at once, in other processes after `REMEMBERED_S`; an API remembers a second more.

        Browsers that signed in with it are signed out at once.

        Raises:
            TokenNotFound: If there is none.
        """
        with self._database.writing() as connection:
            if table.get(connection, token_id) is None:
                raise TokenNotFound(f"there is no token {token_id[:64]!r}")
            table.revoke(connection, token_id, now_unix_s(connection))
            ended = page_sessions.delete_of_token(connection, token_id)
            audit.record(connection, "token_revoked", token_id, {"page_sessions": ended})
        with self._lock:
            self._remembered.pop(token_id, None)

    def authenticate(self, secret: str) -> TokenGrant | None:
        """Return the token of a secret, None for one that is not valid."""
        match = SECRET.fullmatch(secret)
        if match is None:
            return None
        found = self._look_up(match[1])
        if found is None:
            return None
        expected, token = found
        is_right = hmac.compare_digest(expected, _hashed(secret))
        return token if is_right and not token.is_revoked else None

    def _look_up(self, token_id: str) -> tuple[str, TokenGrant] | None:
        now = self._clock()
        with self._lock:
            remembered = self._remembered.get(token_id)
        if remembered is not None and now < remembered[0]:
            return remembered[1:]
        with self._database.looking() as connection:
            row = table.get(connection, token_id)
        if row is None:
            return None
        found = row.secret_sha256, token_of(row)
        with self._lock:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[token_id] = (now + REMEMBERED_S, *found)
        return found


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def scopes_of(text: str) -> frozenset[Scope]:
    """Return the scopes in a token's column."""
    return frozenset(cast("list[Scope]", text.split()))


def token_of(row: AgedToken) -> TokenGrant:
    """Return the token of its row."""
    return TokenGrant(
        token_id=row.token_id,
        name=row.name,
        scopes=scopes_of(row.scopes),
        age_s=max(row.age_s, 0.0),
        is_revoked=row.revoked_unix_s is not None,
        has_many_jobs=row.has_many_jobs,
    )
