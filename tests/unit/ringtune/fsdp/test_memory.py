# SPDX-License-Identifier: Apache-2.0
"""The watch over a rank's memory, in CPU memory."""

from pathlib import Path

import pytest

from ringtune.fsdp.memory import HostMemory, available_bytes
from tests.unit.ringtune.system.kernel_files import control_groups

BYTES = 256 << 20
SLACK_BYTES = 64 << 20


def test_the_peak_is_seen_and_forgotten() -> None:
    """Memory that was given back counts until the reset."""
    watch = HostMemory(1 << 40, 1)
    before = watch.room_bytes()

    block = bytearray(b"1") * BYTES
    held = watch.room_bytes()
    del block
    after = watch.room_bytes()
    watch.reset()

    assert before - held > BYTES - SLACK_BYTES
    assert abs(after - held) < SLACK_BYTES  # the kernel adds up each core's pages now and then
    assert watch.room_bytes() - held > BYTES - SLACK_BYTES


def test_ranks_share_the_free_memory_evenly() -> None:
    """The sum of all limits is below the host's memory."""
    one, half = HostMemory(None, 1).limit_bytes, HostMemory(None, 2).limit_bytes

    assert 0.3 * available_bytes() < one - half < 0.6 * available_bytes()


def test_a_limit_of_the_user_is_the_limit() -> None:
    """No reserve is taken off."""
    assert 7 << 30 == HostMemory(7 << 30, 2).limit_bytes


@pytest.mark.parametrize(
    ("lines", "files"),
    [
        ("0::/job\n", {"job/memory.max": 3 << 20, "job/memory.current": 1 << 20}),
        ("0::/job/step\n", {"job/memory.max": 3 << 20, "job/memory.current": 1 << 20}),
        ("0::/job\n", {"memory.max": 3 << 20, "memory.current": 1 << 20}),
        ("4:memory:/job\n", {"memory/job/memory.limit_in_bytes": 3 << 20, "memory/job/memory.usage_in_bytes": 1 << 20}),
    ],
    ids=["own", "around", "container", "version 1"],
)
def test_control_groups_bound_what_is_free(tmp_path: Path, lines: str, files: dict[str, int]) -> None:
    """A container sees its host's free memory, and may not use it; a job of Slurm has its limit around its step."""
    assert 2 << 20 == available_bytes(control_groups(tmp_path, lines, {name: str(n) for name, n in files.items()}))


def test_a_control_group_without_a_limit_bounds_nothing(tmp_path: Path) -> None:
    """Its file has a word in place of a number."""
    assert available_bytes(control_groups(tmp_path, "0::/job\n", {"job/memory.max": "max\n"})) > 64 << 20


def test_more_than_the_limit_leaves_nothing(tmp_path: Path) -> None:
    """The limit was lowered meanwhile, or the kernel has not freed yet."""
    files = {"job/memory.max": "1", "job/memory.current": "2"}
    assert available_bytes(control_groups(tmp_path, "0::/job\n", files)) == 0
