# SPDX-License-Identifier: Apache-2.0
"""A service that lies: whatever it answers, no config outside of the compiled-in box is tried, no error raised."""

import random
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ringtune.client import ExchangeLimits, ServiceClient
from ringtune.errors import StoreError
from ringtune.tuner import make_designer
from ringtune.tuning.service_link.first_config import FirstConfigDesigner
from ringtune.tuning.service_link.http_link import HttpLink
from tests.integration.service_link.jobs import SPACE, Notes, idle_job
from tests.integration.service_link.lies import lie
from tests.integration.service_link.servers import read_request, serving

SHORT_LIES = 400
LONG_LIES = 100_000


def believe(count: int, folder: Path) -> Counter[str]:
    """Ask a liar so often for a start; return how often something was made of the answer."""
    rng = random.Random(7)
    outcomes: Counter[str] = Counter()

    def handle(connection: socket.socket) -> None:
        if read_request(connection) is not None:
            connection.sendall(lie(rng, SPACE))

    with serving(handle) as url:
        for _ in range(count):
            notes = Notes()
            plain = make_designer("random", SPACE, 0)

            designer = HttpLink(url, None, folder, notes).with_start(plain, idle_job())

            if isinstance(designer, FirstConfigDesigner):
                outcomes["used"] += 1
                assert SPACE.contains(designer.suggest().config)
            else:
                outcomes["refused"] += 1
                assert designer is plain
                assert 1 == len(notes.warnings + notes.infos)
                assert "unexpectedly" not in "".join(notes.warnings), notes.warnings
    return outcomes


def test_nothing_outside_of_the_box_is_tried(tmp_path: Path) -> None:
    """Legal answers are used, and all others are refused with a typed error."""
    outcomes = believe(SHORT_LIES, tmp_path)

    assert min(outcomes["used"], outcomes["refused"]) > SHORT_LIES / 20, outcomes


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_lies(tmp_path: Path) -> None:
    """The full count."""
    outcomes = believe(LONG_LIES, tmp_path)

    assert min(outcomes["used"], outcomes["refused"]) > LONG_LIES / 20, outcomes


def test_every_other_call_meets_lies_with_typed_errors() -> None:
    """Bodies of one kind in place of another, and broken ones."""
    rng = random.Random(3)

    def handle(connection: socket.socket) -> None:
        if read_request(connection) is not None:
            connection.sendall(lie(rng, SPACE))

    with serving(handle) as url:
        client = ServiceClient(url, "token", ExchangeLimits(exchange_s=2.0))
        calls: tuple[Callable[[], object], ...] = (
            lambda: client.find_or_create_study({}),
            lambda: client.tell_batch("a", [{"trial_id": "x"}]),
            lambda: client.ask("a", "b", "c"),
            lambda: client.push_run([], "c"),
            client.studies,
            client.tokens,
            lambda: list(client.export()),
            client.is_ready,
        )
        for number in range(200):
            with suppress(StoreError):
                calls[number % len(calls)]()
