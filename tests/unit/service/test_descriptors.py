# SPDX-License-Identifier: Apache-2.0
"""Descriptors of the process, and the share of them for connections."""

import resource
import subprocess
import sys

import pytest

from ringtune.service.descriptors import OTHER_FILES, connections_for

PROGRAM = """
import resource
from ringtune.service.descriptors import raise_limit
print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    """A process that was started with a soft limit below its hard one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = 512 if hard < 0 else min(512, hard)

    lowered = ["sh", "-c", f'ulimit -S -n 64; ulimit -H -n {wanted}; exec "$@"', "sh", sys.executable, "-c", PROGRAM]
    output = subprocess.run(lowered, check=True, capture_output=True, text=True).stdout

    assert f"{wanted} {wanted} {wanted}" == output.strip()


@pytest.mark.parametrize(
    ("wanted", "files", "expected"),
    [(2048, 20_000, 2048), (2048, 1024, 1024 - OTHER_FILES), (2048, 256, 128), (16, 256, 16), (2048, -1, 2048)],
    ids=["as wanted", "below the limit", "a small limit", "fewer", "no limit"],
)
def test_connections_stay_below_the_limit_on_files(wanted: int, files: int, expected: int) -> None:
    """Something is always left for the database."""
    assert expected == connections_for(wanted, files)
