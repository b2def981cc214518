# SPDX-License-Identifier: Apache-2.0
"""The how-to page of Ray can be followed: its programs run, in order, as they are written."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.documented_commands import blocks_of, script_of
from tests.house.source_tree import REPOSITORY
from tests.platforms.ray_cluster.conftest import QUIET

PAGE = REPOSITORY / "docs" / "howto" / "ray.md"


def test_the_programs_of_the_page_run(cluster: Any, tmp_path: Path) -> None:
    """The programs connect to the tests' cluster, and print their ranks' results."""
    for block in blocks_of(PAGE):
        if block.duty == "file":
            (tmp_path / block.about).write_text(block.text, encoding="utf-8")
    environment = {
        **os.environ,
        **QUIET,
        "RAY_ADDRESS": cluster.address,
        "HOME": str(tmp_path),  # Ray Train and Ray Tune keep their results below it
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    finished = subprocess.run(
        ["bash", "-c", script_of(blocks_of(PAGE), ("platform",))],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )

    text = finished.stdout + finished.stderr
    assert 0 == finished.returncode, text
    results = [line for line in finished.stdout.splitlines() if line.startswith("{'")]
    assert ["{'rank': 0", "{'rank': 1"] == [line.partition(",")[0] for line in results[:2]], text
    assert results[0].partition(",")[2] == results[1].partition(",")[2]
    assert ["{'rank': 0, 'steps': 200}", "{'rank': 1, 'steps': 200}"] == results[2:4], text
    assert "'ranks': 2" in results[4], text
    assert "{'lr': 0.1}" == results[5], text
