# SPDX-License-Identifier: Apache-2.0
"""Sessions of browsers on both databases: random, kept as hashes, and over when they should be."""

import re

import pytest
from sqlalchemy import select, update

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.page_sessions import AHEAD_S, TOUCHED_S, PageSession, new_secret
from ringtune.service.errors import SessionNotFound
from ringtune.service.store import Database, audit
from ringtune.service.store.tables import page_sessions

POLICY = ServiceLimits(design_workers=0)
SETTING = "setting:admin"
SECRET = "a-secret-of-a-setting-"


def begun(service: Service, form_key: str | None = None) -> tuple[str, str]:
    """Return the id of a new token, and of a session that was begun with it."""
    token, secret = service.tokens.create("reader", ["read"])
    return token.token_id, service.page_sessions.begin(token.token_id, secret, form_key)


def found(service: Service, session_id: str) -> PageSession:
    """Return a session that is valid."""
    session = service.page_sessions.find(session_id)
    assert session is not None
    return session


def let_pass(database: Database, column: str, seconds: float) -> None:
    """Make all sessions older, or idle for longer."""
    with database.writing() as connection:
        connection.execute(update(page_sessions).values({column: page_sessions.c[column] - seconds}))


def stored(database: Database) -> list[dict[str, object]]:
    """Return all rows."""
    with database.looking() as connection:
        return [dict(row) for row in connection.execute(select(page_sessions)).mappings()]


def test_a_session_has_its_token_s_scopes_and_the_database_none_of_its_secrets(
    service: Service, database: Database
) -> None:
    """Ids are 256 random bits, never the same twice; neither id, form key nor token is in the row."""
    form_key = new_secret()
    token, secret = service.tokens.create("reader", ["read"])

    ids = {service.page_sessions.begin(token.token_id, secret, form_key) for _ in range(20)}

    assert 20 == len(ids)
    assert all(re.fullmatch(r"[\w-]{43}", session_id) for session_id in ids)
    assert {(token.token_id, "reader", frozenset({"read"}))} == {
        (session.token_id, session.token_name, session.scopes) for session in (found(service, each) for each in ids)
    }
    kept = repr(stored(database))
    assert [] == [text for text in (*ids, form_key, secret, secret.rpartition("_")[2]) if text in kept]


def test_an_id_that_is_not_a_session_s_finds_none(service: Service) -> None:
    """A made-up id, the database's own form of an id, and a token find no session."""
    token, secret = service.tokens.create("reader", ["read"])
    session = found(service, service.page_sessions.begin(token.token_id, secret))

    for wrong in ("", new_secret(), session.handle, session.token_proof, secret, "é" * 43, "%" * 43, "x" * 10_000):
        assert service.page_sessions.find(wrong) is None


def test_a_session_is_over_when_it_was_ended(service: Service) -> None:
    """At once and for good; another one goes on. Ending twice is no error."""
    (_, first), (_, second) = begun(service), begun(service)

    for _ in range(2):
        service.page_sessions.end(first)

    assert service.page_sessions.find(first) is None
    assert service.page_sessions.find(second) is not None


@pytest.mark.parametrize(
    ("column", "seconds", "is_valid"),
    [
        ("created_unix_s", POLICY.max_session_s - 60.0, True),
        ("created_unix_s", POLICY.max_session_s, False),
        ("seen_unix_s", POLICY.max_session_idle_s - 60.0, True),
        ("seen_unix_s", POLICY.max_session_idle_s, False),
        ("created_unix_s", -AHEAD_S - 60.0, False),
        ("seen_unix_s", -AHEAD_S - 60.0, False),
    ],
)
def test_a_session_is_over_when_it_is_old_or_idle(
    column: str, seconds: float, is_valid: bool, service: Service, database: Database
) -> None:
    """A session also ends where the clock was set back, for then its age is not known."""
    _, session_id = begun(service)

    let_pass(database, column, seconds)

    assert is_valid == (service.page_sessions.find(session_id) is not None)
    assert is_valid == bool(service.page_sessions.list())


def test_sessions_that_are_over_are_removed(service: Service, database: Database) -> None:
    """When somebody asks for it, and with every sign-in; they are not counted before."""
    begun(service)
    let_pass(database, "created_unix_s", POLICY.max_session_s + 1.0)
    begun(service)
    let_pass(database, "seen_unix_s", POLICY.max_session_idle_s + 1.0)

    counted, removed = service.page_sessions.count(), service.page_sessions.remove_ended()

    assert (0, 1, []) == (counted, removed, stored(database))
    begun(service)
    assert (1, 1) == (service.page_sessions.count(), len(stored(database)))


def test_use_is_noted_and_lengthens_the_idle_time_alone(service: Service, database: Database) -> None:
    """A session in use is due every minute; a noted time does not make it younger."""
    _, session_id = begun(service)
    for column in ("created_unix_s", "seen_unix_s"):
        let_pass(database, column, TOUCHED_S + 5.0)
    before = found(service, session_id)

    service.page_sessions.touch(session_id)

    after = found(service, session_id)
    assert (True, False) == (before.is_due, after.is_due)
    assert after.age_s >= TOUCHED_S
    assert after.idle_s < TOUCHED_S


def test_a_revoked_token_ends_its_sessions_and_no_others(service: Service, database: Database) -> None:
    """At once: the row is gone, and one that a sign-in added meanwhile is none."""
    (token_id, session_id), (_, other) = begun(service), begun(service)

    service.tokens.revoke(token_id)
    late = service.page_sessions.begin(token_id, "whatever")

    assert [None, None] == [service.page_sessions.find(each) for each in (session_id, late)]
    assert service.page_sessions.find(other) is not None
    with database.looking() as connection:
        assert {"page_sessions": 1} == audit.newest(connection, 1)[0].facts


def test_a_session_of_an_unknown_token_is_none(service: Service) -> None:
    """A token of the settings has no row and keeps its sessions; its holder is proven by the secret."""
    unknown = service.page_sessions.begin("0" * 16, "whatever")
    of_setting = service.page_sessions.begin(SETTING, SECRET)

    assert service.page_sessions.find(unknown) is None
    session = found(service, of_setting)
    assert (True, None, frozenset()) == (session.is_of_setting, session.token_name, session.scopes)
    assert session.is_proven(of_setting, SECRET)
    assert not session.is_proven(of_setting, SECRET + "x")
    assert not session.is_proven(new_secret(), SECRET)


def test_a_token_has_a_bounded_number_of_sessions(service: Service, database: Database) -> None:
    """One more ends the one that was used longest ago; another token's are left alone."""
    _, other = begun(service)
    limited = Service(database, policy=ServiceLimits(design_workers=0, max_sessions_per_token=3))
    ids = []
    for _ in range(4):
        let_pass(database, "seen_unix_s", 1.0)
        ids.append(limited.page_sessions.begin(SETTING, SECRET))
        if len(ids) == 3:
            limited.page_sessions.touch(ids[0])

    assert [True, False, True, True] == [limited.page_sessions.find(each) is not None for each in ids]
    assert limited.page_sessions.find(other) is not None


@pytest.mark.parametrize("form_key", [None, "", "short", "é" * 43, "x" * 44])
def test_other_texts_are_no_form_key(form_key: str | None, service: Service) -> None:
    """A session without one takes none, not even that."""
    session = found(service, begun(service, form_key)[1])

    assert not session.has_form_key(form_key or "")
    assert not session.has_form_key(new_secret())


def test_a_form_key_is_one_session_s(service: Service) -> None:
    """A key opens the forms of no other session."""
    keys = [new_secret(), new_secret()]
    sessions = [found(service, begun(service, key)[1]) for key in keys]

    assert [[True, False], [False, True]] == [[session.has_form_key(key) for key in keys] for session in sessions]


def test_an_operator_sees_sessions_and_ends_one(service: Service, database: Database) -> None:
    """A session is ended by its handle, which is no secret and opens no page; the audit keeps it."""
    first = found(service, begun(service)[1])
    let_pass(database, "seen_unix_s", 5.0)
    second_id = begun(service)[1]

    listed = service.page_sessions.list()
    service.page_sessions.end_named(listed[0].handle)

    assert [first.handle] == [session.handle for session in listed[1:]]
    assert service.page_sessions.find(second_id) is None
    assert [first.handle] == [session.handle for session in service.page_sessions.list()]
    with database.looking() as connection:
        noted = audit.newest(connection, 1)[0]
    assert ("page_session_ended", listed[0].handle) == (noted.event, noted.subject)
    for handle in (listed[0].handle, "%", "_" * 16):
        with pytest.raises(SessionNotFound):
            service.page_sessions.end_named(handle)
