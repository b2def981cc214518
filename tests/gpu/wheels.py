# SPDX-License-Identifier: Apache-2.0
"""`make gpu-wheels`: fetches the wheels that a bare machine with a GPU may lack, into `.gpu-wheels`.

Its Python is 3.12 on x86-64. Packages that are there already, torch and numpy above all, are not brought along.
"""

import subprocess
import sys
from pathlib import Path

WHEELS = Path(__file__).resolve().parents[2] / ".gpu-wheels"
NEEDED = (
    *("typer", "click", "rich", "shellingham", "annotated-doc", "markdown-it-py", "mdurl", "pygments"),
    *("typing-extensions", "threadpoolctl", "structlog", "prometheus-client", "nanobind", "scikit-optimize", "pyaml"),
    *("pytest", "pluggy", "iniconfig", "packaging"),
)
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def main() -> int:
    """Fetch them."""
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp"]
    platforms = [part for name in PLATFORMS for part in ("--platform", name)]
    command = [sys.executable, "-m", "pip", "download", *options, *platforms, "--dest", str(WHEELS), *NEEDED]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
