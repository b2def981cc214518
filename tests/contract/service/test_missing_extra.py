# SPDX-License-Identifier: Apache-2.0
"""The operator's commands where the extra `service` is not installed: they name the remedy."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules[{package!r}] = None
from ringtune.cli import _run_app
sys.exit(_run_app(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("uvicorn", ["serve"]),
        ("pydantic_settings", ["serve"]),
        ("sqlalchemy", ["token", "list"]),
        ("fastapi", ["serve"]),
    ],
)
def test_a_missing_package_is_named_with_the_remedy(package: str, command: list[str]) -> None:
    """One paragraph and no traceback; other commands work without the package."""
    program = [sys.executable, "-c", WITHOUT.format(package=package)]

    ended = subprocess.run([*program, *command], capture_output=True, text=True, timeout=60, check=False)

    assert 2 == ended.returncode, ended.stderr
    assert f"the package {package} is not installed" in ended.stderr
    assert "pip install 'ringtune[service]'" in ended.stderr
    assert 1 == len(ended.stderr.strip().splitlines())
