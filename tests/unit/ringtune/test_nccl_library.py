# SPDX-License-Identifier: Apache-2.0
"""Places where the engine looks for NCCL."""

import sys
from pathlib import Path

import pytest

from ringtune.identity.gpu_facts import NCCL_LIBRARY, find_nccl


@pytest.fixture(autouse=True)
def _only_our_wheels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take packages that may be installed here off the path."""
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])


def test_the_library_of_nvidias_wheel_is_found(tmp_path: Path) -> None:
    """The folders of NVIDIA's wheels have no `__init__.py`."""
    library = tmp_path / "nvidia" / NCCL_LIBRARY
    library.parent.mkdir(parents=True)
    library.touch()

    assert str(library) == find_nccl()


def test_no_wheel_is_no_path(tmp_path: Path) -> None:
    """Other wheels of NVIDIA's may be there without NCCL's."""
    assert find_nccl() == ""

    (tmp_path / "nvidia" / "cublas").mkdir(parents=True)

    assert find_nccl() == ""
