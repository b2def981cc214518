# SPDX-License-Identifier: Apache-2.0
"""The page on Spark can be followed: its programs run by `spark-submit`, TorchDistributor's in both modes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.documented_commands import blocks_of, script_of
from tests.house.source_tree import REPOSITORY
from tests.platforms.spark_sessions import LOOPBACK

PAGE = REPOSITORY / "docs" / "howto" / "spark.md"
LIMIT_S = 400.0


@pytest.mark.timeout(LIMIT_S + 30)
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    """Each prints the results of two ranks."""
    for block in blocks_of(PAGE):
        if block.duty == "file":
            (tmp_path / block.about).write_text(block.text, encoding="utf-8")
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
    }

    finished = subprocess.run(
        ["bash", "-c", script_of(blocks_of(PAGE), ("platform",))],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert 0 == finished.returncode, finished.stderr
    first, *others = [line for line in finished.stdout.splitlines() if line.startswith(("[{", "{"))]
    assert "'rank': 0" in first, finished.stdout
    assert "'rank': 1" in first, finished.stdout
    assert 2 == len(others), finished.stdout
    # A TorchDistributor on the driver returns the result of the rank that wrote it last.
    assert all(line.endswith("'size': 2, 'total': 3.0}") for line in others), finished.stdout
