# SPDX-License-Identifier: Apache-2.0
"""Calls after imports, where modules are imported later, were imported before, or fail."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtune.measuring.compare.import_watch import ImportWatch


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two modules that can be imported, one of which fails; afterwards both are forgotten."""
    (tmp_path / "watched_one.py").write_text("value = 1\n", encoding="utf-8")
    (tmp_path / "watched_bad.py").write_text("raise ValueError('bad')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    yield
    sys.meta_path[:] = finders
    for name in ("watched_one", "watched_bad"):
        sys.modules.pop(name, None)


def test_a_call_comes_once_after_the_import() -> None:
    """The module is complete by then, and has its own loader afterwards."""
    seen: list[int] = []
    ImportWatch({"watched_one": lambda: seen.append(sys.modules["watched_one"].value)}).install()
    before = list(seen)

    import watched_one  # type: ignore[import-not-found]

    assert ([], [1]) == (before, seen)
    assert "SourceFileLoader" == type(watched_one.__loader__).__name__
    assert watched_one.__spec__.loader is watched_one.__loader__


def test_a_module_that_is_there_is_taken_at_once() -> None:
    """A module that is imported already counts as there."""
    seen: list[str] = []
    ImportWatch({"json": lambda: seen.append("json")}).install()

    assert ["json"] == seen


def test_a_failing_import_fails_as_without_a_watch() -> None:
    """No callback is called."""
    seen: list[str] = []
    ImportWatch({"watched_bad": lambda: seen.append("bad"), "not_there": lambda: seen.append("none")}).install()

    with pytest.raises(ValueError, match="bad"):
        import watched_bad  # type: ignore[import-not-found]  # noqa: F401  (made by the fixture)
    with pytest.raises(ModuleNotFoundError):
        import not_there  # type: ignore[import-not-found]  # noqa: F401  (there is none)

    assert [] == seen
