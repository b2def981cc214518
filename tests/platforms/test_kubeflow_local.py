# SPDX-License-Identifier: Apache-2.0
"""The page on Kubernetes: Kubeflow's own local backend runs the job that it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.documented_commands import file_of
from tests.house.source_tree import REPOSITORY
from tests.platforms.kubernetes.linked_wheel import write_linked_wheel

PAGE = REPOSITORY / "docs" / "howto" / "kubernetes.md"
TORCH = "2.13.0"
LIMIT_S = 900.0


def run_job(folder: Path, *packages: str) -> list[str]:
    """Run the page's program in a folder and return its ranks' output; the backend's environment is made below it.

    Two ranks may share a line: torchrun starts Python with `-u`, where `print` writes a text and its end apart.
    """
    (folder / "local_job.py").write_text(file_of(PAGE, "local_job.py"), encoding="utf-8")
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    finished = subprocess.run(
        [sys.executable, "local_job.py", *packages],
        cwd=folder,
        env={**environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert 0 == finished.returncode, finished.stderr
    assert finished.stdout.startswith("Complete\n"), finished.stdout
    return sorted(re.findall(r"rank \d of \d, local rank \d", finished.stdout))


def test_the_local_backend_runs_the_job_of_the_page(tmp_path: Path) -> None:
    """Its environment has the packages of this one, which it need not fetch."""
    wheel = write_linked_wheel(tmp_path, "torch", TORCH)

    lines = run_job(tmp_path, f"torch @ file://{wheel}")

    assert ["rank 0 of 2, local rank 0", "rank 1 of 2, local rank 1"] == lines


@pytest.mark.long
@pytest.mark.timeout(LIMIT_S + 60)
def test_the_local_backend_installs_what_the_page_names(tmp_path: Path) -> None:
    """Torch comes from the registry, and ringtune from a wheel of this tree (`make setup-platforms` builds it)."""
    (wheel,) = (REPOSITORY / "build" / "wheels").glob("ringtune-*.whl")

    lines = run_job(tmp_path, f"torch=={TORCH}", f"ringtune @ file://{wheel}")

    assert ["rank 0 of 2, local rank 0", "rank 1 of 2, local rank 1"] == lines
