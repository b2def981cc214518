# SPDX-License-Identifier: Apache-2.0
"""Following the events: where a connection begins, and when it ends."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.contract.service.applications import ADMIN_SECRET, application, bearer
from tests.contract.service.requests import STUDY_BODY, UUIDS, result_body

LIMIT_S = 60.0
EVENTS = "/v1/events"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """An operator before an application in whose ledger three results are."""
    with TestClient(application(tmp_path), headers=bearer(ADMIN_SECRET)) as made:
        study_id = made.post("/v1/studies", json=STUDY_BODY).json()["id"]
        for trial_id in UUIDS[:3]:
            made.put(f"/v1/studies/{study_id}/trials/{trial_id}/result", json=result_body(UUIDS[3]))
        yield made


def heard(client: TestClient, address: str, headers: dict[str, str], end: Callable[[], object]) -> str:
    """Return all that a listener got until `end`, which is called when it listens, ended it."""
    replies: list[str] = []
    parts = client.app.state.service_state  # type: ignore[attr-defined]
    listener = threading.Thread(target=lambda: replies.append(client.get(address, headers=headers).text))
    listener.start()
    rest = threading.Event()
    while not parts.listeners.count and listener.is_alive():
        rest.wait(0.01)
    try:
        end()
        listener.join(LIMIT_S)
        assert not listener.is_alive()
    finally:
        assert client.portal is not None
        client.portal.call(parts.ending.set)
        listener.join(LIMIT_S)
    return replies[0]


@pytest.mark.parametrize(
    ("address", "headers", "expected"),
    [
        (EVENTS, {}, "id: 3"),
        (EVENTS, {"last-event-id": "1"}, "id: 1"),
        (f"{EVENTS}?after=2", {}, "id: 2"),
        (f"{EVENTS}?after=0", {"last-event-id": "2"}, "id: 2"),
        (EVENTS, {"last-event-id": "5000"}, "id: 3"),
    ],
)
def test_a_listener_knows_where_it_is_before_anything_happens(
    client: TestClient, address: str, headers: dict[str, str], expected: str
) -> None:
    """A listener cut off before the first event goes on from its position; another ledger's number is refused."""
    parts = client.app.state.service_state  # type: ignore[attr-defined]

    text = heard(client, address, headers, lambda: client.portal.call(parts.ending.set))  # type: ignore[union-attr]

    assert [expected, "retry: 3000", ""] == text.splitlines()[:3]


def test_an_event_names_its_job_in_full(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener finds the event's job among the jobs of the study; an id is no secret, for it belongs to its token."""
    parts = client.app.state.service_state  # type: ignore[attr-defined]
    since, published = parts.service.events.since, threading.Event()

    def looked(number: int) -> object:
        if number:  # the second look: the event that the first one found is on its way
            published.set()
        return since(number)

    monkeypatch.setattr(parts.service.events, "since", looked)

    def end() -> None:
        published.wait(LIMIT_S)
        client.portal.call(parts.ending.set)  # type: ignore[union-attr]

    text = heard(client, f"{EVENTS}?after=0", {}, end)

    assert 3 == text.count(f'"job_id":"{UUIDS[3]}"')


def test_a_revoked_token_hears_no_more(client: TestClient) -> None:
    """The connection of a token ends when the token is revoked."""
    created = client.post("/v1/tokens", json={"name": "x", "scopes": ["read"]}).json()

    text = heard(client, EVENTS, bearer(created["secret"]), lambda: client.delete(f"/v1/tokens/{created['id']}"))

    assert text.startswith("id: 3\nretry: 3000\n\n")
