# SPDX-License-Identifier: Apache-2.0
"""The garbage collector has little to do while requests are answered."""

import gc
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


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """Let a server look at the collector instead of running; afterwards the collector is as it was."""
    found, thresholds = Serving(), gc.get_threshold()

    def look(_server: object, **_arguments: object) -> None:
        found.frozen, found.scanned, found.young = gc.get_freeze_count(), len(gc.get_objects()), gc.get_threshold()[0]

    monkeypatch.setattr(serving._Server, "run", look)
    yield found
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_collections_leave_the_program_itself_alone(seen: Serving, tmp_path: Path) -> None:
    """A collection skips the objects from before the first request, and young objects wait a while."""
    url = SecretStr(f"sqlite:///{tmp_path / 'ringtune.db'}")
    settings = ServiceSettings(port=0, database_url=url, design_workers=0)

    serving.serve(settings, lambda _line: None)

    assert seen.frozen > 10 * seen.scanned
    assert serving.YOUNG_OBJECTS_MAX == seen.young
