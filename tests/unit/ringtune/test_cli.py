# SPDX-License-Identifier: Apache-2.0
"""Options of the `ringtune` command itself."""

import pytest
from typer.testing import CliRunner

import ringtune
from ringtune.cli import app


@pytest.mark.parametrize("arguments", [["--version"], ["run", "--version"], ["run", "-v"]])
def test_the_version_is_printed(arguments: list[str]) -> None:
    """`ringtune --version` prints the package's version and ends well; so does Horovod's way to ask."""
    result = CliRunner().invoke(app, arguments)

    assert (0, ringtune.__version__) == (result.exit_code, result.stdout.strip())
