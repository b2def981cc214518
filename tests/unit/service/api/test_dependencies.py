# SPDX-License-Identifier: Apache-2.0
"""Work on large bodies takes place apart from everybody else's."""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from pydantic import SecretStr

from ringtune.service.api.dependencies import LARGE_BODY_BYTES, AppState
from ringtune.service.app import create_app
from ringtune.service.settings import ServiceSettings

Result = TypeVar("Result")
LARGE = b"x" * (LARGE_BODY_BYTES + 1)
WAIT_S = 60.0


@pytest.fixture
def state(tmp_path: Path) -> Iterator[AppState]:
    """The state of an application."""
    app = create_app(ServiceSettings(database_url=SecretStr(f"sqlite:///{tmp_path}/a.db"), design_workers=0))
    found: AppState = app.state.service_state
    yield found
    found.service.close()


def worked_on(state: AppState, body: bytes, work: Callable[[], Result]) -> Result:
    """Return the result of work on a body."""
    return asyncio.run(state.work_on(body, work))


@pytest.mark.parametrize(("body", "expected"), [(b"x", True), (LARGE, False)], ids=["small", "large"])
def test_no_garbage_is_collected_beside_a_large_body(state: AppState, body: bytes, expected: bool) -> None:
    """The body's objects are alive, and a collection would stop every thread."""
    is_collecting = worked_on(state, body, gc.isenabled)

    assert (expected, True) == (is_collecting, gc.isenabled())


def test_garbage_is_collected_again_after_a_failure(state: AppState) -> None:
    """A body that is refused leaves the collector on."""
    with pytest.raises(ZeroDivisionError):
        worked_on(state, LARGE, lambda: 1 / 0)

    assert gc.isenabled()


def test_large_bodies_are_worked_on_one_at_a_time(state: AppState) -> None:
    """A second one begins when the first one is done, whose end turns the collector on."""
    begun = 0
    lock = threading.Lock()

    def work() -> bool:
        nonlocal begun
        with lock:
            begun += 1
            return gc.isenabled()

    async def work_on_both() -> list[bool]:
        return list(await asyncio.gather(state.work_on(LARGE, work), state.work_on(LARGE, work)))

    assert [False, False] == asyncio.run(asyncio.wait_for(work_on_both(), WAIT_S))
    assert 2 == begun
