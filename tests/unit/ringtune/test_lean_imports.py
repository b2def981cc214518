# SPDX-License-Identifier: Apache-2.0
"""Ranks, commands and the service start without scipy: its import takes a third of a rank's start."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["ringtune.session", "ringtune.cli", "ringtune.service.serving"])
def test_a_process_starts_without_scipy(module: str) -> None:
    """Only a fit needs scipy, and imports it."""
    code = f"import sys, {module}; print('scipy' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "False" == done.stdout.strip()
