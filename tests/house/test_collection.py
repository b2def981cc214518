# SPDX-License-Identifier: Apache-2.0
"""The tests have the same names whenever they are collected: workers that disagree about them run none.

`make test` notices that by itself: its workers, each with hashes of its own, compare their collections.
"""

import os
import subprocess
import sys

import pytest

from tests.house.source_tree import REPOSITORY


def collected(seed: int) -> list[str]:
    """Return the names of all tests, as a process of its own collects them with a seed for its hashes."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests"]
    variables = {**os.environ, "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(command, cwd=REPOSITORY, env=variables, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_tests_keep_their_names() -> None:
    """Seconds later and with other hashes."""
    names = collected(seed=1)

    assert len(names) > 1_000
    assert names == collected(seed=2)
