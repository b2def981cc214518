# SPDX-License-Identifier: Apache-2.0
"""Descriptors 0 to 2 are the standard streams', in a process of its own for each case."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from ringtune.system.standard_streams import above_standard_streams, occupy_standard_streams
report = os.dup2(1, 50)
for number in map(int, sys.argv[1:]):
    os.close(number)
moved = above_standard_streams(os.open("/dev/zero", os.O_RDONLY | os.O_CLOEXEC))
occupy_standard_streams()
links = [os.readlink(f"/proc/self/fd/{n}") for n in (0, 1, 2)]
kinds = ["null" if link == "/dev/null" else "other" for link in links]
os.write(report, f"{kinds} {moved >= 3} {os.readlink(f'/proc/self/fd/{moved}')} {os.get_inheritable(2)}".encode())
"""


@pytest.mark.parametrize("closed", [[], [2], [1, 2], [0, 1, 2], [0]])
def test_closed_streams_become_the_null_device(closed: list[int]) -> None:
    """Open streams stay; a file that had such a number gets another one; children have the streams, too."""
    command = [sys.executable, "-c", PROGRAM, *map(str, closed)]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        output = process.communicate(timeout=300)[0].decode()

    kinds = ["null" if number in closed else "other" for number in range(3)]
    assert f"{kinds} True /dev/zero True" == output
