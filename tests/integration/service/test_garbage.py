# SPDX-License-Identifier: Apache-2.0
"""The interpreter lets requests be answered: few collections of garbage, and threads that change places quickly."""

import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr

from ringtune.service import serving
from ringtune.service.settings import ServiceSettings


@dataclass
class Serving:
    """Observations while requests would have been answered."""

    frozen: int = 0
    scanned: int = 0
    young: int = 0
    switch_s: float = 0.0


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """Let a server look at the collector instead of running; afterwards the interpreter is as it was."""
    found, thresholds, switch_s = Serving(), gc.get_threshold(), sys.getswitchinterval()

    def look(_server: object, **_arguments: object) -> None:
        found.frozen, found.scanned, found.young = gc.get_freeze_count(), len(gc.get_objects()), gc.get_threshold()[0]
        found.switch_s = sys.getswitchinterval()

    monkeypatch.setattr(serving._Server, "run", look)
    yield found
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(switch_s)


def test_collections_leave_the_program_itself_alone(seen: Serving, tmp_path: Path) -> None:
    """A collection skips the objects from before the first request, and young objects wait a while."""
    serve_once(tmp_path)

    assert seen.frozen > 10 * seen.scanned
    assert serving.YOUNG_OBJECTS_MAX == seen.young


def test_a_busy_thread_gives_way_soon(seen: Serving, tmp_path: Path) -> None:
    """A request beside a large log waits for the interpreter several times."""
    serve_once(tmp_path)

    assert serving.SWITCH_INTERVAL_S == pytest.approx(seen.switch_s)


def serve_once(folder: Path) -> None:
    """Start a server that ends at once, with its data in `folder`."""
    url = SecretStr(f"sqlite:///{folder / 'ringtune.db'}")
    settings = ServiceSettings(port=0, database_url=url, design_workers=0)

    serving.serve(settings, lambda _line: None)
