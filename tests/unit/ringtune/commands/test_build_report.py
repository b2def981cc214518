# SPDX-License-Identifier: Apache-2.0
"""`--check-build` and `nccl_built`."""

import pytest

from ringtune.commands.build_report import build_report
from ringtune.session import basics


@pytest.mark.parametrize(
    ("has_cuda", "version", "number"),
    [(True, "2.27.5", 22705), (True, "2.18.1.post1", 21801), (True, None, 0), (False, "2.27.5", 0)],
)
def test_nccl_has_horovods_number_where_it_can_be_used(
    monkeypatch: pytest.MonkeyPatch, has_cuda: bool, version: str | None, number: int
) -> None:
    """NCCL's own way to write a version as one number; the report says the same."""
    monkeypatch.setattr("ringtune._engine.has_cuda", lambda: has_cuda)
    monkeypatch.setattr(basics, "installed_nccl", lambda: version)

    assert number == basics.nccl_built()
    assert f"    [{'X' if number else ' '}] NCCL" in build_report().splitlines()
