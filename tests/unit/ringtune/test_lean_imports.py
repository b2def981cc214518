# SPDX-License-Identifier: Apache-2.0
"""Ranks, commands and the service start without rarely used imports: scipy takes a third of a rank's start."""

import subprocess
import sys

import pytest

from ringtune import tuner


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("ringtune.session.session", "scipy"),
        ("ringtune.service.serving", "scipy"),
        ("ringtune.cli", "numpy"),
        ("ringtune.__main__", "typing"),
    ],
)
def test_a_process_starts_without_a_package(module: str, unneeded: str) -> None:
    """Only a fit needs scipy, a search numpy; Ctrl-C is heeded once the way into the command is imported."""
    code = f"import sys, {module}; print({unneeded!r} in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "False" == done.stdout.strip()


def test_every_public_name_of_the_tuner_has_its_module() -> None:
    """A public name is found at its first use; other names are errors."""
    assert sorted(tuner._HOMES) == sorted(tuner.__all__)
    assert all(getattr(tuner, name) is not None for name in tuner.__all__)
    assert set(tuner.__all__) <= set(dir(tuner))
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = tuner.no_such_name
